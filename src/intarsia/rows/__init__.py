"""Sets of rows and their algebra, the order of values, and one evaluator for all bounds."""
