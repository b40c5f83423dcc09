"""The engines that keep state, behind one interface: SQLite, PostgreSQL, MySQL and MariaDB."""
