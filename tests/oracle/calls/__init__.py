"""Single operations called at random: any dtype, shape, axis and option, inputs of which the graph knows more or less."""
