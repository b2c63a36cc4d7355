"""The pages of the site that are made when it is built: from the catalogue, the manual, the tables and the library."""
