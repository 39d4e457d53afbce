#!/bin/bash
# SPDX-License-Identifier: MIT
#
# sqlite3 from the command line: blobs from 1 byte to 40,000 bytes, indexes, updates, deletes,
# VACUUM, integrity_check, a dump read back into a second database.

# shellcheck source=tests/program/lib.sh
source "$(dirname "$0")/lib.sh"

program_begin sqlite3 'sqlite3: blobs, indexes, VACUUM, integrity_check, dump and restore.' "$@"
program_needs sqlite3

ROWS=1500
[ "$LONG" = 0 ] || ROWS=40000

# A blob's length walks over 1 byte to 40,000 bytes; its content follows from its number.
write_sql() {
    cat <<SQL
.bail on
PRAGMA page_size=8192;
PRAGMA journal_mode=WAL;
PRAGMA synchronous=OFF;
PRAGMA cache_size=-4000;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, bucket INT, body BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $ROWS)
INSERT INTO item
  SELECT i, printf('item-%08d-%s', i * 7919 % 100003, substr(hex(i * 2654435761), 1, 1 + i % 30)), i % 97,
         CAST(substr(replace(hex(zeroblob(20001)), '00', char(33 + i % 90, 33 + i * 7 % 90)), 1,
                     1 + i * 37 * CASE WHEN i % 5 THEN 1 ELSE 13 END % 40000) AS BLOB) FROM n;
CREATE INDEX item_name ON item(name);
CREATE UNIQUE INDEX item_bucket ON item(bucket, name, id);
SELECT count(*), sum(length(body)), min(name), max(name) FROM item;
UPDATE item SET body = body || substr(body, 1, 1500), name = name || '-again' WHERE bucket % 3 = 0;
DELETE FROM item WHERE bucket IN (SELECT bucket FROM item WHERE id % 11 = 0 GROUP BY bucket LIMIT 20);
SELECT bucket, count(*), sum(length(body)), group_concat(substr(name, 1, 12), ' ') FROM item GROUP BY bucket ORDER BY bucket LIMIT 40;
SELECT a.id, b.id FROM item a JOIN item b ON a.name < b.name AND a.bucket = b.bucket WHERE a.id < 60 ORDER BY 1, 2 LIMIT 200;
ANALYZE;
REINDEX;
PRAGMA integrity_check;
VACUUM;
PRAGMA integrity_check;
PRAGMA foreign_key_check;
SELECT group_concat(unit, '') FROM
  (SELECT hex(substr(body, 1, 2)) || length(body) AS unit FROM item ORDER BY name DESC, id LIMIT 500);
.output dump.sql
.dump
.output stdout
SQL
}

session() {
    write_sql >session.sql
    rm -f first.db second.db
    step build 60 sqlite3 -batch first.db '.read session.sql'
    md5sum <build.out
    md5sum <dump.sql
    md5sum first.db
    step restore 60 sqlite3 -batch second.db '.read dump.sql' 'PRAGMA integrity_check;' '.dump'
    sed 1d restore.out | cmp - dump.sql && echo 'the restored database dumps the same'
    head -n 1 restore.out
    prove build 100
    prove restore 100
}

program_matrix session
