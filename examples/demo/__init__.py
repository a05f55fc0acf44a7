"""The demo: real flights, written by Spark and by pandas, indexed, and asked five questions twice."""
