"""What Spark needs to run here: Java, sessions, workers with our code and compiled kernels."""
