"""The command line: parse arguments, build the object graph, run."""
