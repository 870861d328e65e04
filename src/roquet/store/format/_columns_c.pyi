from roquet.store.format._columns_py import read_columns as read_columns
