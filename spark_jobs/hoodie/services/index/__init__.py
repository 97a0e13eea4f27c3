"""The indexes of a table's metadata table: made, dropped, shown and made anew."""
