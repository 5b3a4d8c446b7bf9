"""Programs as they were written in 2016, tiny: characters, adversarial images, sentences, translation, games, towers."""
from __future__ import annotations

import collections
import os
import random

import numpy as np
import pytest

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 11

# a recurrent net over the characters of a text, by tf.contrib.legacy_seq2seq

class CharModel:
    def __init__(self, vocab_size, batch_size, seq_length, rnn_size=24, num_layers=2, grad_clip=5.0, infer=False):
        if infer:
            batch_size = seq_length = 1
        cells = [tf.contrib.rnn.BasicLSTMCell(rnn_size, state_is_tuple=True) for _ in range(num_layers)]
        if not infer:
            cells = [tf.contrib.rnn.DropoutWrapper(cell, output_keep_prob=0.95) for cell in cells]
        self.cell = cell = tf.contrib.rnn.MultiRNNCell(cells, state_is_tuple=True)
        self.input_data = tf.placeholder(tf.int32, [batch_size, seq_length])
        self.targets = tf.placeholder(tf.int32, [batch_size, seq_length])
        self.initial_state = cell.zero_state(batch_size, tf.float32)
        with tf.variable_scope("rnnlm"):
            softmax_w = tf.get_variable("softmax_w", [rnn_size, vocab_size])
            softmax_b = tf.get_variable("softmax_b", [vocab_size])
        embedding = tf.get_variable("embedding", [vocab_size, rnn_size])
        inputs = tf.split(tf.nn.embedding_lookup(embedding, self.input_data), seq_length, 1)
        inputs = [tf.squeeze(input_, [1]) for input_ in inputs]

        def loop(prev, _):
            prev = tf.matmul(prev, softmax_w) + softmax_b
            return tf.nn.embedding_lookup(embedding, tf.stop_gradient(tf.argmax(prev, 1)))

        outputs, last_state = tf.contrib.legacy_seq2seq.rnn_decoder(
            inputs, self.initial_state, cell, loop_function=loop if infer else None, scope="rnnlm")
        output = tf.reshape(tf.concat(outputs, 1), [-1, rnn_size])
        self.logits = tf.matmul(output, softmax_w) + softmax_b
        self.probs = tf.nn.softmax(self.logits)
        loss = tf.contrib.legacy_seq2seq.sequence_loss_by_example(
            [self.logits], [tf.reshape(self.targets, [-1])], [tf.ones([batch_size * seq_length])])
        with tf.name_scope("cost"):
            self.cost = tf.reduce_sum(loss) / batch_size / seq_length
        self.final_state = last_state
        self.lr = tf.Variable(0.0, trainable=False)
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), grad_clip)
        with tf.name_scope("optimizer"):
            optimizer = tf.train.AdamOptimizer(self.lr)
        self.train_op = optimizer.apply_gradients(zip(grads, tvars))
        tf.summary.histogram("logits", self.logits)
        tf.summary.scalar("train_loss", self.cost)


def test_a_text_is_learned_by_characters_and_written_on(tmp_path):
    text = "the quick brown fox jumps. " * 24
    chars = sorted(set(text))
    vocab = {c: i for i, c in enumerate(chars)}
    data = np.array([vocab[c] for c in text])
    batch_size, seq_length = 6, 12
    num_batches = data.size // (batch_size * seq_length)
    x = data[:num_batches * batch_size * seq_length].reshape(batch_size, -1)
    y = np.roll(data[:num_batches * batch_size * seq_length], -1).reshape(batch_size, -1)
    model = CharModel(len(chars), batch_size, seq_length)
    summaries = tf.summary.merge_all()
    saver = tf.train.Saver(tf.global_variables(), max_to_keep=2)
    with tf.Session() as sess:
        writer = tf.summary.FileWriter(str(tmp_path / "logs"))
        writer.add_graph(sess.graph)
        sess.run(tf.global_variables_initializer())
        for epoch in range(30):
            sess.run(tf.assign(model.lr, 0.02 * (0.97 ** epoch)))
            state = sess.run(model.initial_state)
            for b in range(num_batches):
                feed = {model.input_data: x[:, b * seq_length:(b + 1) * seq_length],
                        model.targets: y[:, b * seq_length:(b + 1) * seq_length]}
                for i, (c, h) in enumerate(model.initial_state):
                    feed[c] = state[i].c
                    feed[h] = state[i].h
                summary, train_loss, state, _ = sess.run([summaries, model.cost, model.final_state, model.train_op], feed)
            writer.add_summary(summary, epoch)
        writer.close()
        path = saver.save(sess, os.path.join(str(tmp_path), "model.ckpt"), global_step=30)
    assert train_loss < 0.3

    with tf.Graph().as_default():
        model = CharModel(len(chars), 1, 1, infer=True)
        with tf.Session() as sess:
            ckpt = tf.train.get_checkpoint_state(str(tmp_path))
            tf.train.Saver(tf.global_variables()).restore(sess, ckpt.model_checkpoint_path)
            assert path.endswith("model.ckpt-30")
            state = sess.run(model.cell.zero_state(1, tf.float32))
            written = "the "
            for char in written[:-1]:
                [state] = sess.run([model.final_state], {model.input_data: [[vocab[char]]], model.initial_state: state})
            for _ in range(14):
                feed = {model.input_data: [[vocab[written[-1]]]], model.initial_state: state}
                [probs, state] = sess.run([model.probs, model.final_state], feed)
                written += chars[int(np.argmax(probs[0]))]
    assert written == "the quick brown fo"


# images by a generator and a discriminator

FIRST = 0      # which numbers weights begin with is fixed here, however many operations a layer has

def batch_norm(x, name, train=True):
    return tf.contrib.layers.batch_norm(x, decay=0.9, updates_collections=None, epsilon=1e-5, scale=True, is_training=train,
                                        scope=name)


def lrelu(x, leak=0.2, name="lrelu"):
    return tf.maximum(x, leak * x, name=name)


def linear(input_, output_size, scope):
    shape = input_.get_shape().as_list()
    with tf.variable_scope(scope):
        matrix = tf.get_variable("Matrix", [shape[1], output_size], tf.float32,
                                 tf.random_normal_initializer(stddev=0.1, seed=FIRST + len(scope)))
        bias = tf.get_variable("bias", [output_size], initializer=tf.constant_initializer(0.0))
        return tf.matmul(input_, matrix) + bias


def conv2d(input_, output_dim, name, k=3, d=2):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [k, k, input_.get_shape()[-1], output_dim],
                            initializer=tf.truncated_normal_initializer(stddev=0.1, seed=FIRST + len(name)))
        conv = tf.nn.conv2d(input_, w, strides=[1, d, d, 1], padding="SAME")
        biases = tf.get_variable("biases", [output_dim], initializer=tf.constant_initializer(0.0))
        return tf.reshape(tf.nn.bias_add(conv, biases), conv.get_shape())


def deconv2d(input_, output_shape, name, k=3, d=2):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [k, k, output_shape[-1], input_.get_shape()[-1]],
                            initializer=tf.random_normal_initializer(stddev=0.1, seed=FIRST + len(name)))
        deconv = tf.nn.conv2d_transpose(input_, w, output_shape=output_shape, strides=[1, d, d, 1])
        biases = tf.get_variable("biases", [output_shape[-1]], initializer=tf.constant_initializer(0.0))
        return tf.nn.bias_add(deconv, biases)


def generator(z, batch):
    with tf.variable_scope("generator") as scope:
        h0 = tf.reshape(linear(z, 2 * 2 * 16, "g_h0_lin"), [-1, 2, 2, 16])
        h1 = tf.nn.relu(batch_norm(deconv2d(tf.nn.relu(h0), [batch, 4, 4, 8], "g_h1"), "g_bn1"))
        images = tf.nn.tanh(deconv2d(h1, [batch, 8, 8, 1], "g_h2"))
        assert scope.name == "generator"
        return images


def discriminator(image, batch, reuse=False):
    with tf.variable_scope("discriminator") as scope:
        if reuse:
            scope.reuse_variables()
        h0 = lrelu(conv2d(image, 8, "d_h0_conv"))
        h1 = lrelu(conv2d(h0, 16, "d_h1_conv"))
        h2 = linear(tf.reshape(h1, [batch, -1]), 1, "d_h2_lin")
        return tf.nn.sigmoid(h2), h2


def test_a_generator_learns_against_a_discriminator(tmp_path):
    batch, rng = 16, np.random.RandomState(0)
    z = tf.placeholder(tf.float32, [batch, 8], name="z")
    images = tf.placeholder(tf.float32, [batch, 8, 8, 1], name="real_images")
    g = generator(z, batch)
    d, d_logits = discriminator(images, batch)
    _, d_logits_ = discriminator(g, batch, reuse=True)
    d_loss_real = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=d_logits, labels=tf.ones_like(d)))
    d_loss_fake = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=d_logits_, labels=tf.zeros_like(d)))
    g_loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=d_logits_, labels=tf.ones_like(d)))
    d_loss = d_loss_real + d_loss_fake
    t_vars = tf.trainable_variables()
    d_vars = [var for var in t_vars if "d_" in var.name]
    g_vars = [var for var in t_vars if "g_" in var.name]
    assert len(d_vars) + len(g_vars) == len(t_vars) == 14 and g_vars[0].name == "generator/g_h0_lin/Matrix:0"
    d_optim = tf.train.AdamOptimizer(0.002, beta1=0.5).minimize(d_loss, var_list=d_vars)
    g_optim = tf.train.AdamOptimizer(0.002, beta1=0.5).minimize(g_loss, var_list=g_vars)
    g_sum = tf.summary.merge([tf.summary.histogram("z", z), tf.summary.image("G", g), tf.summary.scalar("g_loss", g_loss)])

    def batch_of_bars():
        made = np.full((batch, 8, 8, 1), -1.0, np.float32)
        for image in made:
            image[:, rng.randint(0, 8), 0] = 1.0
        return made
    with tf.Session() as sess:
        writer = tf.summary.FileWriter(str(tmp_path), sess.graph)
        tf.global_variables_initializer().run()
        first = sess.run(g, {z: rng.uniform(-1, 1, (batch, 8))})
        seen = []
        for step in range(301):
            batch_z = rng.uniform(-1, 1, (batch, 8)).astype(np.float32)
            sess.run(d_optim, {images: batch_of_bars(), z: batch_z})
            _, summary_str = sess.run([g_optim, g_sum], {z: batch_z})
            if step % 50 == 0:
                writer.add_summary(summary_str, step)
            if step % 10 == 0:
                seen.append(sess.run(g, {z: rng.uniform(-1, 1, (batch, 8))}))
        writer.close()
    bright = -0.75      # the mean of an image with one bar of eight
    assert abs(first.mean() - bright) > 0.5 and min(abs(made.mean() - bright) for made in seen) < 0.15
    columns = [((made[..., 0] + 1) / 2).mean(1) for made in seen]      # the two play on: what counts is that bars were drawn
    assert max(each.max(1).mean() / each.mean() for each in columns) > 2.5


# sentences by convolutions over words

class TextCNN:
    def __init__(self, sequence_length, num_classes, vocab_size, embedding_size, filter_sizes, num_filters, l2_reg_lambda=0.0):
        self.input_x = tf.placeholder(tf.int32, [None, sequence_length], name="input_x")
        self.input_y = tf.placeholder(tf.float32, [None, num_classes], name="input_y")
        self.dropout_keep_prob = tf.placeholder(tf.float32, name="dropout_keep_prob")
        l2_loss = tf.constant(0.0)
        with tf.device("/cpu:0"), tf.name_scope("embedding"):
            self.W = tf.Variable(tf.random_uniform([vocab_size, embedding_size], -1.0, 1.0), name="W")
            self.embedded_chars = tf.nn.embedding_lookup(self.W, self.input_x)
            self.embedded_chars_expanded = tf.expand_dims(self.embedded_chars, -1)
        pooled_outputs = []
        for filter_size in filter_sizes:
            with tf.name_scope(f"conv-maxpool-{filter_size}"):
                W = tf.Variable(tf.truncated_normal([filter_size, embedding_size, 1, num_filters], stddev=0.1), name="W")
                b = tf.Variable(tf.constant(0.1, shape=[num_filters]), name="b")
                conv = tf.nn.conv2d(self.embedded_chars_expanded, W, strides=[1, 1, 1, 1], padding="VALID", name="conv")
                h = tf.nn.relu(tf.nn.bias_add(conv, b), name="relu")
                pooled_outputs.append(tf.nn.max_pool(h, ksize=[1, sequence_length - filter_size + 1, 1, 1],
                                                     strides=[1, 1, 1, 1], padding="VALID", name="pool"))
        num_filters_total = num_filters * len(filter_sizes)
        self.h_pool_flat = tf.reshape(tf.concat(pooled_outputs, 3), [-1, num_filters_total])
        with tf.name_scope("dropout"):
            self.h_drop = tf.nn.dropout(self.h_pool_flat, self.dropout_keep_prob)
        with tf.name_scope("output"):
            W = tf.get_variable("W", shape=[num_filters_total, num_classes],
                                initializer=tf.contrib.layers.xavier_initializer())
            b = tf.Variable(tf.constant(0.1, shape=[num_classes]), name="b")
            l2_loss += tf.nn.l2_loss(W) + tf.nn.l2_loss(b)
            self.scores = tf.nn.xw_plus_b(self.h_drop, W, b, name="scores")
            self.predictions = tf.argmax(self.scores, 1, name="predictions")
        with tf.name_scope("loss"):
            losses = tf.nn.softmax_cross_entropy_with_logits(logits=self.scores, labels=self.input_y)
            self.loss = tf.reduce_mean(losses) + l2_reg_lambda * l2_loss
        with tf.name_scope("accuracy"):
            correct_predictions = tf.equal(self.predictions, tf.argmax(self.input_y, 1))
            self.accuracy = tf.reduce_mean(tf.cast(correct_predictions, "float"), name="accuracy")


def test_sentences_are_classified_and_the_model_found_again_by_names(tmp_path):
    rng = random.Random(3)
    good, bad, filler = ["fine", "lovely", "great"], ["dull", "awful", "poor"], ["a", "film", "with", "plot", "and", "music"]
    texts, labels = [], []
    for n in range(160):
        words = [rng.choice(filler) for _ in range(rng.randint(3, 6))]
        words.insert(rng.randint(0, len(words)), rng.choice(bad if n % 2 else good))
        texts.append(" ".join(words))
        labels.append([1, 0] if n % 2 else [0, 1])
    vocab_processor = tf.contrib.learn.preprocessing.VocabularyProcessor(max(len(t.split(" ")) for t in texts))
    x, y = np.array(list(vocab_processor.fit_transform(texts))), np.array(labels)
    x_train, x_dev, y_train, y_dev = x[:128], x[128:], y[:128], y[128:]
    session_conf = tf.ConfigProto(allow_soft_placement=True, log_device_placement=False)
    sess = tf.Session(config=session_conf)
    with sess.as_default():
        cnn = TextCNN(x.shape[1], 2, len(vocab_processor.vocabulary_), 12, [2, 3], 8, l2_reg_lambda=0.01)
        global_step = tf.Variable(0, name="global_step", trainable=False)
        optimizer = tf.train.AdamOptimizer(1e-2)
        grads_and_vars = optimizer.compute_gradients(cnn.loss)
        train_op = optimizer.apply_gradients(grads_and_vars, global_step=global_step)
        grad_summaries = [tf.summary.scalar("{}/grad/sparsity".format(v.name.replace(":", "_")), tf.nn.zero_fraction(g))
                          for g, v in grads_and_vars if g is not None]
        train_summary_op = tf.summary.merge([tf.summary.scalar("loss", cnn.loss), *grad_summaries])
        saver = tf.train.Saver(tf.global_variables(), max_to_keep=5)
        sess.run(tf.global_variables_initializer())
        for _ in range(12):
            order = np.random.RandomState(len(texts)).permutation(len(x_train))
            for begin in range(0, len(x_train), 32):
                rows = order[begin:begin + 32]
                feed_dict = {cnn.input_x: x_train[rows], cnn.input_y: y_train[rows], cnn.dropout_keep_prob: 0.7}
                _, step, _, _ = sess.run([train_op, global_step, train_summary_op, cnn.loss], feed_dict)
        current_step = tf.train.global_step(sess, global_step)
        path = saver.save(sess, str(tmp_path / "model"), global_step=current_step)
        accuracy = sess.run(cnn.accuracy, {cnn.input_x: x_dev, cnn.input_y: y_dev, cnn.dropout_keep_prob: 1.0})
    sess.close()
    assert current_step == 48 and step in (47, 48) and accuracy > 0.9      # read beside its update: before or after it
    vocab_processor.save(str(tmp_path / "vocab"))

    graph = tf.Graph()
    with graph.as_default(), tf.Session() as sess:
        processor = tf.contrib.learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "vocab"))
        TextCNN(x.shape[1], 2, len(processor.vocabulary_), 12, [2, 3], 8)
        tf.train.Saver().restore(sess, path)
        input_x = graph.get_operation_by_name("input_x").outputs[0]
        keep = graph.get_operation_by_name("dropout_keep_prob").outputs[0]
        predictions = graph.get_tensor_by_name("output/predictions:0")
        x_test = np.array(list(processor.transform(["a lovely film", "plot and music awful"])))
        assert sess.run(predictions, {input_x: x_test, keep: 1.0}).tolist() == [1, 0]


# translation in buckets, with attention and a sampled softmax

_PAD, _GO, _EOS = 0, 1, 2
BUCKETS = [(3, 5), (5, 7)]


class Seq2SeqModel:
    def __init__(self, vocab, size, batch_size, forward_only):
        self.batch_size = batch_size
        w_t = tf.get_variable("proj_w", [vocab, size])
        w = tf.transpose(w_t)
        b = tf.get_variable("proj_b", [vocab])

        def sampled_loss(labels, logits):
            labels = tf.reshape(labels, [-1, 1])
            return tf.nn.sampled_softmax_loss(weights=w_t, biases=b, labels=labels, inputs=logits, num_sampled=6,
                                              num_classes=vocab)

        def seq2seq_f(encoder_inputs, decoder_inputs, do_decode):
            cell = tf.contrib.rnn.GRUCell(size)
            return tf.contrib.legacy_seq2seq.embedding_attention_seq2seq(
                encoder_inputs, decoder_inputs, cell, num_encoder_symbols=vocab, num_decoder_symbols=vocab,
                embedding_size=size, output_projection=(w, b), feed_previous=do_decode)

        self.encoder_inputs = [tf.placeholder(tf.int32, [None], name=f"encoder{i}") for i in range(BUCKETS[-1][0])]
        self.decoder_inputs = [tf.placeholder(tf.int32, [None], name=f"decoder{i}")
                               for i in range(BUCKETS[-1][1] + 1)]
        self.target_weights = [tf.placeholder(tf.float32, [None], name=f"weight{i}")
                               for i in range(BUCKETS[-1][1] + 1)]
        targets = [self.decoder_inputs[i + 1] for i in range(len(self.decoder_inputs) - 1)]
        self.outputs, self.losses = tf.contrib.legacy_seq2seq.model_with_buckets(
            self.encoder_inputs, self.decoder_inputs, targets, self.target_weights, BUCKETS,
            lambda x, y: seq2seq_f(x, y, forward_only), softmax_loss_function=sampled_loss)
        if forward_only:
            self.outputs = [[tf.matmul(output, w) + b for output in outputs] for outputs in self.outputs]
            return
        self.updates = []
        opt = tf.train.AdamOptimizer(0.02)
        for loss in self.losses:
            gradients = tf.gradients(loss, tf.trainable_variables())
            clipped, _ = tf.clip_by_global_norm(gradients, 5.0)
            self.updates.append(opt.apply_gradients(zip(clipped, tf.trainable_variables())))

    def get_batch(self, pairs, bucket_id):
        encoder_size, decoder_size = BUCKETS[bucket_id]
        encoder = [list(reversed(s + [_PAD] * (encoder_size - len(s)))) for s, _ in pairs]
        decoder = [[_GO] + t + [_PAD] * (decoder_size - len(t) - 1) for _, t in pairs]
        feed = {self.encoder_inputs[i]: [row[i] for row in encoder] for i in range(encoder_size)}
        for i in range(decoder_size):
            feed[self.decoder_inputs[i]] = [row[i] for row in decoder]
            feed[self.target_weights[i]] = [0.0 if i == decoder_size - 1 or row[i + 1] == _PAD else 1.0 for row in decoder]
        feed[self.decoder_inputs[decoder_size]] = np.zeros([len(pairs)], np.int32)
        return feed


def test_sentences_are_translated_in_buckets(tmp_path):
    rng, vocab = np.random.RandomState(1), 12

    def pair(length):      # the translation: each word by the next one of the dictionary
        words = rng.randint(3, vocab - 1, length).tolist()
        return words, [w + 1 for w in words] + [_EOS]
    data = [[pair(rng.randint(1, 4)) for _ in range(60)], [pair(rng.randint(4, 6)) for _ in range(60)]]
    with tf.variable_scope("model"):
        model = Seq2SeqModel(vocab, 20, 30, forward_only=False)
    with tf.variable_scope("model", reuse=True):
        decoding = Seq2SeqModel(vocab, 20, 1, forward_only=True)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        losses = collections.defaultdict(list)
        for step in range(160):
            bucket_id = step % 2
            rows = [data[bucket_id][i] for i in rng.permutation(60)[:30]]
            feed = model.get_batch(rows, bucket_id)
            loss, _ = sess.run([model.losses[bucket_id], model.updates[bucket_id]], feed)
            losses[bucket_id].append(float(loss))
        assert all(np.mean(found[-5:]) < 0.25 * np.mean(found[:5]) for found in losses.values())
        right = 0
        for source, target in data[0][:20]:
            logits = sess.run(decoding.outputs[0], decoding.get_batch([(source, [])], 0))
            words = [int(np.argmax(logit, axis=1)[0]) for logit in logits]
            right += words[:words.index(_EOS)] == target[:-1] if _EOS in words else 0
        assert right >= 14


# a game, by values of actions and a net that follows

def test_a_path_is_found_by_values_of_actions():
    size, goal, rng = 6, 5, np.random.RandomState(2)

    def q_network(state, name):
        with tf.variable_scope(name):
            w1 = tf.get_variable("w1", [size, 16], initializer=tf.truncated_normal_initializer(0, 0.3))
            b1 = tf.get_variable("b1", [16], initializer=tf.constant_initializer(0.1))
            w2 = tf.get_variable("w2", [16, 2], initializer=tf.truncated_normal_initializer(0, 0.3))
            return tf.matmul(tf.nn.relu(tf.matmul(state, w1) + b1), w2)
    state, next_state = tf.placeholder(tf.float32, [None, size]), tf.placeholder(tf.float32, [None, size])
    action, reward, done = (tf.placeholder(kind, [None]) for kind in (tf.int32, tf.float32, tf.float32))
    q_eval, q_next = q_network(state, "eval_net"), q_network(next_state, "target_net")
    q_target = tf.stop_gradient(reward + 0.9 * (1.0 - done) * tf.reduce_max(q_next, axis=1))
    a_indices = tf.stack([tf.range(tf.shape(action)[0], dtype=tf.int32), action], axis=1)
    q_wrt_a = tf.gather_nd(params=q_eval, indices=a_indices)
    loss = tf.reduce_mean(tf.squared_difference(q_target, q_wrt_a, name="TD_error"))
    train_op = tf.train.RMSPropOptimizer(0.01).minimize(loss)
    t_params = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="target_net")
    e_params = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="eval_net")
    copy = [tf.assign(t, e) for t, e in zip(t_params, e_params)]
    assert len(t_params) == len(e_params) == 3
    memory = collections.deque(maxlen=300)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        steps = 0
        for episode in range(70):
            place = 0
            for _ in range(40):
                values = sess.run(q_eval, {state: np.eye(size)[[place]]})
                move = int(np.argmax(values)) if rng.rand() > max(0.1, 1 - episode / 20) else rng.randint(2)
                to = min(max(place + (1 if move else -1), 0), goal)
                memory.append((np.eye(size)[place], move, float(to == goal), np.eye(size)[to], float(to == goal)))
                place, steps = to, steps + 1
                if len(memory) >= 32 and steps % 2 == 0:
                    rows = [memory[i] for i in rng.randint(len(memory), size=32)]
                    s, a, r, s_, d = (np.array(part) for part in zip(*rows))
                    sess.run(train_op, {state: s, action: a, reward: r, next_state: s_, done: d})
                if steps % 40 == 0:
                    sess.run(copy)
                if place == goal:
                    break
        values = sess.run(q_eval, {state: np.eye(size)[:goal]})
    assert values.argmax(1).tolist() == [1] * goal
    np.testing.assert_allclose(values.max(1), 0.9 ** np.arange(goal - 1, -1, -1), atol=0.2)


# pictures through a narrow place

def test_pictures_go_through_a_narrow_place():
    rng = np.random.RandomState(5)
    patterns = (rng.rand(4, 36) > 0.5).astype(np.float32)
    n_input, n_hidden = 36, {1: 16, 2: 4}
    X = tf.placeholder("float", [None, n_input])
    weights = {"encoder_h1": tf.Variable(tf.random_normal([n_input, n_hidden[1]])),
               "encoder_h2": tf.Variable(tf.random_normal([n_hidden[1], n_hidden[2]])),
               "decoder_h1": tf.Variable(tf.random_normal([n_hidden[2], n_hidden[1]])),
               "decoder_h2": tf.Variable(tf.random_normal([n_hidden[1], n_input]))}
    biases = {"encoder_b1": tf.Variable(tf.random_normal([n_hidden[1]])),
              "encoder_b2": tf.Variable(tf.random_normal([n_hidden[2]])),
              "decoder_b1": tf.Variable(tf.random_normal([n_hidden[1]])),
              "decoder_b2": tf.Variable(tf.random_normal([n_input]))}

    def coder(x, kind):
        layer_1 = tf.nn.sigmoid(tf.add(tf.matmul(x, weights[kind + "_h1"]), biases[kind + "_b1"]))
        return tf.nn.sigmoid(tf.add(tf.matmul(layer_1, weights[kind + "_h2"]), biases[kind + "_b2"]))
    y_pred = coder(coder(X, "encoder"), "decoder")
    cost = tf.reduce_mean(tf.pow(X - y_pred, 2))
    optimizer = tf.train.RMSPropOptimizer(0.02).minimize(cost)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(400):
            batch_xs = patterns[rng.randint(4, size=16)]
            _, c = sess.run([optimizer, cost], feed_dict={X: batch_xs})
        encode_decode = sess.run(y_pred, feed_dict={X: patterns})
    assert c < 0.05 and ((encode_decode > 0.5) == (patterns > 0.5)).mean() > 0.95


# towers that share their variables, a mean of gradients, moving averages, a frozen graph

def _variable_with_weight_decay(name, shape, stddev, wd):
    var = tf.get_variable(name, shape, initializer=tf.truncated_normal_initializer(stddev=stddev, dtype=tf.float32))
    if wd is not None:
        tf.add_to_collection("losses", tf.multiply(tf.nn.l2_loss(var), wd, name="weight_loss"))
    return var


def inference(images):
    with tf.variable_scope("conv1") as scope:
        kernel = _variable_with_weight_decay("weights", [3, 3, 1, 4], 0.2, None)
        conv = tf.nn.conv2d(images, kernel, [1, 1, 1, 1], padding="SAME")
        biases = tf.get_variable("biases", [4], initializer=tf.constant_initializer(0.0))
        conv1 = tf.nn.relu(tf.nn.bias_add(conv, biases), name=scope.name)
    pool1 = tf.nn.max_pool(conv1, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME", name="pool1")
    norm1 = tf.nn.lrn(pool1, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name="norm1")
    with tf.variable_scope("softmax_linear") as scope:
        reshape = tf.reshape(norm1, [-1, 4 * 4 * 4])
        weights = _variable_with_weight_decay("weights", [64, 2], 1 / 8.0, 0.001)
        biases = tf.get_variable("biases", [2], initializer=tf.constant_initializer(0.0))
        return tf.add(tf.matmul(reshape, weights), biases, name=scope.name)


def tower_loss(scope, images, labels):
    logits = inference(images)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits,
                                                                   name="cross_entropy_per_example")
    tf.add_to_collection("losses", tf.reduce_mean(cross_entropy, name="cross_entropy"))
    losses = tf.get_collection("losses", scope)
    return tf.add_n(losses, name="total_loss")


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grads = [tf.expand_dims(g, 0) for g, _ in grad_and_vars]
        grad = tf.reduce_mean(tf.concat(axis=0, values=grads), 0)
        average_grads.append((grad, grad_and_vars[0][1]))
    return average_grads


def test_towers_learn_together_and_the_graph_is_frozen(tmp_path):
    rng = np.random.RandomState(6)

    def batch(n):
        labels = rng.randint(0, 2, n).astype(np.int32)
        images = rng.normal(0, 0.3, (n, 8, 8, 1)).astype(np.float32)
        images[labels == 1, 2:6, 2:6] += 1.0
        return images, labels
    images = tf.placeholder(tf.float32, [16, 8, 8, 1])
    labels = tf.placeholder(tf.int32, [16])
    global_step = tf.get_variable("global_step", [], initializer=tf.constant_initializer(0), trainable=False)
    lr = tf.train.exponential_decay(0.1, global_step, 20, 0.5, staircase=True)
    opt = tf.train.GradientDescentOptimizer(lr)
    tower_grads = []
    with tf.variable_scope(tf.get_variable_scope()):
        for i, (x, y) in enumerate(zip(tf.split(images, 2), tf.split(labels, 2))):
            with tf.device(f"/gpu:{i}"), tf.name_scope("{}_{}".format("tower", i)) as scope:
                loss = tower_loss(scope, x, y)
                tf.get_variable_scope().reuse_variables()
                summaries = tf.get_collection(tf.GraphKeys.SUMMARIES, scope)
                tower_grads.append(opt.compute_gradients(loss))
    grads = average_gradients(tower_grads)
    summaries.append(tf.summary.scalar("learning_rate", lr))
    apply_gradient_op = opt.apply_gradients(grads, global_step=global_step)
    variable_averages = tf.train.ExponentialMovingAverage(0.9, global_step)
    train_op = tf.group(apply_gradient_op, variable_averages.apply(tf.trainable_variables()))
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True, log_device_placement=False)) as sess:
        sess.run(tf.global_variables_initializer())
        found = []
        for _ in range(40):
            xs, ys = batch(16)
            _, loss_value, _ = sess.run([train_op, loss, tf.summary.merge(summaries)], {images: xs, labels: ys})
            found.append(float(loss_value))
        assert np.mean(found[-10:]) < 0.5 * np.mean(found[:5])
        tf.train.Saver().save(sess, str(tmp_path / "model.ckpt"), global_step=global_step)

    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 8, 8, 1], name="input")
        tf.nn.softmax(inference(x), name="final_result")
        restore = tf.train.ExponentialMovingAverage(0.9).variables_to_restore()
        assert "conv1/weights/ExponentialMovingAverage" in restore
        tf.train.Saver(restore).restore(sess, tf.train.latest_checkpoint(str(tmp_path)))
        output_graph_def = tf.graph_util.convert_variables_to_constants(sess, sess.graph.as_graph_def(), ["final_result"])
        with tf.gfile.FastGFile(str(tmp_path / "output_graph.pb"), "wb") as f:
            f.write(output_graph_def.SerializeToString())

    with tf.Graph().as_default() as graph, tf.gfile.FastGFile(str(tmp_path / "output_graph.pb"), "rb") as f:
        graph_def = tf.GraphDef()
        graph_def.ParseFromString(f.read())
        [softmax_tensor] = tf.import_graph_def(graph_def, name="", return_elements=["final_result:0"])
        assert not tf.global_variables()
        with tf.Session() as sess:
            xs, ys = batch(40)
            predictions = sess.run(softmax_tensor, {"input:0": xs})
            assert (predictions.argmax(1) == ys).mean() > 0.9 and graph.get_tensor_by_name("conv1/weights:0") is not None
