"""The demo: five queries on real flights, written by Spark and by pandas, before and after indexing."""
