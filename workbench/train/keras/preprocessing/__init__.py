"""USER LEVEL: sequences, texts and images made into arrays that models take, as in Keras 2.0."""
