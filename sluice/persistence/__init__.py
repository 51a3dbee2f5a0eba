"""Remember: sessions, items, migrations, media; the only user of sqlite-utils."""
