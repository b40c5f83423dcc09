"""The engines that keep state, behind one seam: SQLite, PostgreSQL, MySQL and MariaDB."""
