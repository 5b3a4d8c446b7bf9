"""Whole programs as people wrote them for TensorFlow 1.x, tiny: each must run as it stands, and learn."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
GRAPH, SEED = tf.Graph, 7


def test_linear_regression_with_placeholders():
    rng = np.random.RandomState(0)
    train_X = rng.uniform(0, 10, 17).astype(np.float32)
    train_Y = 3 * train_X + 2
    n_samples = train_X.shape[0]

    X = tf.placeholder("float")
    Y = tf.placeholder("float")
    W = tf.Variable(rng.randn(), name="weight")
    b = tf.Variable(rng.randn(), name="bias")
    pred = tf.add(tf.multiply(X, W), b)
    cost = tf.reduce_sum(tf.pow(pred - Y, 2)) / (2 * n_samples)
    optimizer = tf.train.GradientDescentOptimizer(0.01).minimize(cost)
    init = tf.global_variables_initializer()
    with tf.Session() as sess:
        sess.run(init)
        before = sess.run(cost, feed_dict={X: train_X, Y: train_Y})
        for _epoch in range(60):
            for (x, y) in zip(train_X, train_Y):
                sess.run(optimizer, feed_dict={X: x, Y: y})
        after = sess.run(cost, feed_dict={X: train_X, Y: train_Y})
        assert after < 0.1 * before


def test_mlp_fed_by_files_and_queues(tmp_path):
    """Writes TFRecords, reads them by two threads, shuffles, batches, and trains tf.layers until the input ends."""
    rng = np.random.RandomState(1)
    path = str(tmp_path / "train.tfrecords")
    writer = tf.python_io.TFRecordWriter(path)
    for _ in range(64):
        x = rng.randn(4).astype(np.float32)
        example = tf.train.Example(features=tf.train.Features(feature={
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(x.sum() > 0)])),
            "raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[x.tobytes()]))}))
        writer.write(example.SerializeToString())
    writer.close()

    filename_queue = tf.train.string_input_producer([path], num_epochs=20)
    reader = tf.TFRecordReader()
    _, serialized = reader.read(filename_queue)
    features = tf.parse_single_example(serialized, features={
        "raw": tf.FixedLenFeature([], tf.string), "label": tf.FixedLenFeature([], tf.int64)})
    x = tf.decode_raw(features["raw"], tf.float32)
    x.set_shape([4])
    label = tf.cast(features["label"], tf.int32)
    xs, labels = tf.train.shuffle_batch([x, label], batch_size=16, num_threads=2, capacity=100, min_after_dequeue=30)

    hidden = tf.layers.dense(xs, 16, activation=tf.nn.relu, name="hidden")
    logits = tf.layers.dense(hidden, 2, name="softmax")
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    tf.summary.scalar("loss", loss)
    summary_op = tf.summary.merge_all()
    train_op = tf.train.AdamOptimizer(0.01).minimize(loss)
    sess = tf.Session()
    sess.run(tf.group(tf.global_variables_initializer(), tf.local_variables_initializer()))
    summary_writer = tf.summary.FileWriter(str(tmp_path / "logs"), sess.graph)
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    losses = []
    try:
        step = 0
        while not coord.should_stop():
            _, loss_value = sess.run([train_op, loss])
            losses.append(float(loss_value))
            if step % 20 == 0:
                summary_writer.add_summary(sess.run(summary_op), step)
            step += 1
    except tf.errors.OutOfRangeError:
        pass
    finally:
        coord.request_stop()
    coord.join(threads)
    summary_writer.close()
    sess.close()
    assert 60 <= len(losses) <= 80 and np.mean(losses[-10:]) < 0.5 * np.mean(losses[:5])


def _stripes(rng, count):
    """Images [count, 8, 8] with bright rows or bright columns, and which of the two."""
    labels = rng.randint(0, 2, count)
    images = rng.uniform(0, 0.4, (count, 8, 8)).astype(np.float32)
    for image, label in zip(images, labels):
        view = image if label else image.T
        view[::2] += 0.6
    return images.reshape(count, 64), np.eye(2, dtype=np.float32)[labels]


def test_convnet_with_dropout_and_saver(tmp_path):
    def weight_variable(shape):
        return tf.Variable(tf.truncated_normal(shape, stddev=0.1))

    def bias_variable(shape):
        return tf.Variable(tf.constant(0.1, shape=shape))

    images, labels = _stripes(np.random.RandomState(2), 64)
    x = tf.placeholder(tf.float32, [None, 64])
    y_ = tf.placeholder(tf.float32, [None, 2])
    keep_prob = tf.placeholder(tf.float32)
    x_image = tf.reshape(x, [-1, 8, 8, 1])
    W_conv1, b_conv1 = weight_variable([3, 3, 1, 4]), bias_variable([4])
    h_conv1 = tf.nn.relu(tf.nn.conv2d(x_image, W_conv1, strides=[1, 1, 1, 1], padding="SAME") + b_conv1)
    h_pool1 = tf.nn.max_pool(h_conv1, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    W_fc1, b_fc1 = weight_variable([4 * 4 * 4, 16]), bias_variable([16])
    h_fc1 = tf.nn.relu(tf.matmul(tf.reshape(h_pool1, [-1, 4 * 4 * 4]), W_fc1) + b_fc1)
    h_fc1_drop = tf.nn.dropout(h_fc1, keep_prob)
    y_conv = tf.matmul(h_fc1_drop, weight_variable([16, 2])) + bias_variable([2])
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y_conv))
    train_step = tf.train.AdamOptimizer(1e-2).minimize(cross_entropy)
    correct_prediction = tf.equal(tf.argmax(y_conv, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))
    saver = tf.train.Saver()
    everything = {x: images, y_: labels, keep_prob: 1.0}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = cross_entropy.eval(feed_dict=everything)
        for i in range(30):
            chosen = slice(i % 4 * 16, i % 4 * 16 + 16)
            train_step.run(feed_dict={x: images[chosen], y_: labels[chosen], keep_prob: 0.5})
        after, reached = sess.run([cross_entropy, accuracy], everything)
        path = saver.save(sess, str(tmp_path / "model.ckpt"), global_step=30)
    assert after < 0.5 * before and reached > 0.9
    with tf.Session() as sess:
        state = tf.train.get_checkpoint_state(str(tmp_path))
        assert state.model_checkpoint_path == path
        saver.restore(sess, state.model_checkpoint_path)
        assert sess.run(accuracy, everything) == reached


def test_convnet_of_layers_in_a_monitored_session(tmp_path):
    images, labels = _stripes(np.random.RandomState(3), 64)
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = dataset.map(lambda image, label: (tf.reshape(image, [8, 8, 1]), label)).shuffle(64).repeat().batch(16)
    batch_images, batch_labels = dataset.make_one_shot_iterator().get_next()
    net = tf.layers.conv2d(batch_images, 4, 3, activation=tf.nn.relu, padding="same")
    net = tf.layers.max_pooling2d(net, 2, 2)
    net = tf.layers.dropout(tf.layers.flatten(net), rate=0.25, training=True)
    logits = tf.layers.dense(net, 2)
    loss = tf.losses.softmax_cross_entropy(batch_labels, logits)
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.exponential_decay(0.02, global_step, 20, 0.9, staircase=True)
    train_op = tf.train.AdamOptimizer(learning_rate).minimize(loss, global_step=global_step)
    losses = []
    for last_step in (20, 40):      # the second session goes on from the checkpoint of the first
        hooks = [tf.train.StopAtStepHook(last_step=last_step)]
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=hooks) as mon_sess:
            while not mon_sess.should_stop():
                losses.append(float(mon_sess.run([train_op, loss])[1]))
    assert len(losses) == 40 and np.mean(losses[-5:]) < 0.4 * np.mean(losses[:5])
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-40")


class PTBModel:
    """A word-level language model, in the shape of the PTB tutorial."""

    def __init__(self, is_training, config, input_data, targets):
        batch_size, num_steps, size, vocab_size = config
        cell = tf.contrib.rnn.MultiRNNCell([self._cell(size, is_training) for _ in range(2)], state_is_tuple=True)
        self.initial_state = cell.zero_state(batch_size, tf.float32)
        with tf.device("/cpu:0"):
            embedding = tf.get_variable("embedding", [vocab_size, size], dtype=tf.float32)
            inputs = tf.nn.embedding_lookup(embedding, input_data)
        if is_training:
            inputs = tf.nn.dropout(inputs, 0.9)
        outputs, self.final_state = tf.nn.dynamic_rnn(cell, inputs, initial_state=self.initial_state)
        output = tf.reshape(outputs, [-1, size])
        softmax_w = tf.get_variable("softmax_w", [size, vocab_size], dtype=tf.float32)
        softmax_b = tf.get_variable("softmax_b", [vocab_size], dtype=tf.float32)
        logits = tf.reshape(tf.nn.xw_plus_b(output, softmax_w, softmax_b), [batch_size, num_steps, vocab_size])
        loss = tf.contrib.seq2seq.sequence_loss(
            logits, targets, tf.ones([batch_size, num_steps], dtype=tf.float32), average_across_timesteps=False,
            average_across_batch=True)
        self.cost = tf.reduce_sum(loss)
        if not is_training:
            return
        self.lr = tf.Variable(0.0, trainable=False)
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), 5)
        optimizer = tf.train.GradientDescentOptimizer(self.lr)
        self.train_op = optimizer.apply_gradients(zip(grads, tvars),
                                                  global_step=tf.train.get_or_create_global_step())
        self.new_lr = tf.placeholder(tf.float32, shape=[], name="new_learning_rate")
        self.lr_update = tf.assign(self.lr, self.new_lr)

    @staticmethod
    def _cell(size, is_training):
        cell = tf.contrib.rnn.BasicLSTMCell(size, forget_bias=0.0, state_is_tuple=True)
        return tf.contrib.rnn.DropoutWrapper(cell, output_keep_prob=0.9) if is_training else cell


def test_lstm_language_model_under_a_supervisor(tmp_path):
    batch_size, num_steps, vocab_size = 4, 5, 7
    text = np.tile(np.arange(vocab_size), 20)[:batch_size * 31]
    data = text.reshape(batch_size, -1).astype(np.int32)
    config = (batch_size, num_steps, 12, vocab_size)
    i = tf.train.range_input_producer(6, shuffle=False).dequeue()
    x = tf.strided_slice(data, [0, i * num_steps], [batch_size, (i + 1) * num_steps])
    x.set_shape([batch_size, num_steps])
    y = tf.strided_slice(data, [0, i * num_steps + 1], [batch_size, (i + 1) * num_steps + 1])
    y.set_shape([batch_size, num_steps])
    initializer = tf.random_uniform_initializer(-0.3, 0.3)
    with tf.variable_scope("Model", reuse=None, initializer=initializer):
        m = PTBModel(True, config, x, y)
    with tf.variable_scope("Model", reuse=True, initializer=initializer):
        mvalid = PTBModel(False, config, x, y)
    sv = tf.train.Supervisor(logdir=str(tmp_path))
    with sv.managed_session() as session:
        session.run(m.lr_update, feed_dict={m.new_lr: 0.5})
        costs = []
        for _epoch in range(12):
            state = session.run(m.initial_state)
            for _step in range(6):
                feed_dict = {}
                for number, (c, h) in enumerate(m.initial_state):
                    feed_dict[c], feed_dict[h] = state[number].c, state[number].h
                cost, state, _ = session.run([m.cost, m.final_state, m.train_op], feed_dict)
                costs.append(float(cost))
        valid = session.run(mvalid.cost)
        sv.saver.save(session, sv.save_path, global_step=sv.global_step)
    assert np.mean(costs[-6:]) < 0.5 * np.mean(costs[:6]) and valid < 0.5 * costs[0]
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-72")


def test_word2vec_with_nce_loss():
    vocabulary_size, batch_size, embedding_size, num_sampled = 20, 16, 8, 6
    rng = np.random.RandomState(4)
    words = np.repeat(np.arange(vocabulary_size), 4)      # each word's neighbour is the one after it

    train_inputs = tf.placeholder(tf.int32, shape=[batch_size])
    train_labels = tf.placeholder(tf.int32, shape=[batch_size, 1])
    valid_dataset = tf.constant([0, 5], dtype=tf.int32)
    with tf.device("/cpu:0"):
        embeddings = tf.Variable(tf.random_uniform([vocabulary_size, embedding_size], -1.0, 1.0))
        embed = tf.nn.embedding_lookup(embeddings, train_inputs)
        nce_weights = tf.Variable(tf.truncated_normal([vocabulary_size, embedding_size], stddev=1.0 / np.sqrt(8)))
        nce_biases = tf.Variable(tf.zeros([vocabulary_size]))
    loss = tf.reduce_mean(tf.nn.nce_loss(weights=nce_weights, biases=nce_biases, labels=train_labels, inputs=embed,
                                         num_sampled=num_sampled, num_classes=vocabulary_size))
    optimizer = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keep_dims=True))
    normalized_embeddings = embeddings / norm
    similarity = tf.matmul(tf.nn.embedding_lookup(normalized_embeddings, valid_dataset), normalized_embeddings,
                           transpose_b=True)
    with tf.Session() as session:
        tf.global_variables_initializer().run()
        losses = []
        for _ in range(200):
            batch_inputs = rng.choice(words, batch_size)
            batch_labels = ((batch_inputs + 1) % vocabulary_size).reshape(batch_size, 1)
            _, loss_val = session.run([optimizer, loss], {train_inputs: batch_inputs, train_labels: batch_labels})
            losses.append(float(loss_val))
        sim = similarity.eval()
    assert np.mean(losses[-20:]) < 0.4 * np.mean(losses[:5])
    assert sim.shape == (2, vocabulary_size) and abs(sim[0, 0] - 1) < 1e-5


def test_variational_autoencoder():
    images, _ = _stripes(np.random.RandomState(5), 64)
    images = np.clip(images, 0.1, 0.9)      # nothing is certain, so the logarithms below stay finite
    n_z = 3

    def fully_connected(inputs, outputs, name, activation=tf.nn.softplus):
        with tf.variable_scope(name):
            w = tf.get_variable("w", [inputs.get_shape()[1], outputs], initializer=tf.contrib.layers.xavier_initializer())
            b = tf.get_variable("b", [outputs], initializer=tf.constant_initializer(0.0))
            y = tf.add(tf.matmul(inputs, w), b)
            return y if activation is None else activation(y)

    x = tf.placeholder(tf.float32, [None, 64])
    h = fully_connected(x, 24, "encoder")
    z_mean = fully_connected(h, n_z, "mean", None)
    z_log_sigma_sq = fully_connected(h, n_z, "log_sigma", None)
    eps = tf.random_normal(tf.shape(z_mean), 0, 1, dtype=tf.float32)
    z = tf.add(z_mean, tf.multiply(tf.sqrt(tf.exp(z_log_sigma_sq)), eps))
    x_reconstr_mean = fully_connected(fully_connected(z, 24, "decoder"), 64, "out", tf.nn.sigmoid)
    reconstr_loss = -tf.reduce_sum(x * tf.log(1e-10 + x_reconstr_mean)
                                   + (1 - x) * tf.log(1e-10 + 1 - x_reconstr_mean), 1)
    latent_loss = -0.5 * tf.reduce_sum(1 + z_log_sigma_sq - tf.square(z_mean) - tf.exp(z_log_sigma_sq), 1)
    cost = tf.reduce_mean(reconstr_loss + latent_loss)
    optimizer = tf.train.AdamOptimizer(learning_rate=0.02).minimize(cost)
    sess = tf.InteractiveSession()
    sess.run(tf.global_variables_initializer())
    costs = [sess.run((optimizer, cost), feed_dict={x: images})[1] for _ in range(120)]
    samples = x_reconstr_mean.eval(feed_dict={z: np.random.RandomState(0).normal(size=(5, n_z))})
    sess.close()
    assert np.mean(costs[-5:]) < 0.85 * costs[0] and samples.shape == (5, 64)


def test_iris_with_an_estimator(tmp_path):
    iris = tf.contrib.learn.datasets.load_dataset("iris")
    feature_columns = [tf.feature_column.numeric_column("x", shape=[4])]
    classifier = tf.estimator.DNNClassifier(feature_columns=feature_columns, hidden_units=[10, 10], n_classes=3,
                                            model_dir=str(tmp_path))
    train_input_fn = tf.estimator.inputs.numpy_input_fn(
        x={"x": iris.data.astype(np.float32)}, y=iris.target, batch_size=32, num_epochs=None, shuffle=True)
    test_input_fn = tf.estimator.inputs.numpy_input_fn(
        x={"x": iris.data.astype(np.float32)}, y=iris.target, num_epochs=1, shuffle=False)
    classifier.train(input_fn=train_input_fn, steps=10)
    first = classifier.evaluate(input_fn=test_input_fn)
    classifier.train(input_fn=train_input_fn, steps=150)
    last = classifier.evaluate(input_fn=test_input_fn)
    assert last["loss"] < first["loss"] and last["accuracy"] > 0.9 and last["global_step"] == 160
    predictions = [p["classes"] for p in classifier.predict(input_fn=test_input_fn)]
    assert len(predictions) == 150 and predictions[0] == [b"0"]
