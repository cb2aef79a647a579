package sqlite

import (
	"encoding/binary"
	"fmt"
)

const (
	// applicationID ("prcp" in ASCII) marks this program's files. Open refuses other databases.
	applicationID = 0x70726370
	// schemaVersion is this release's schema; see migrations.
	schemaVersion = 9
	// lateExchangeVersion is the first schema that records exchanges arriving after their session's settlement. The
	// migration to reopenVersion finds such exchanges in files from older releases.
	lateExchangeVersion, reopenVersion = 4, 6
	// echoVersion is the first schema with one row per echo.
	echoVersion = 9
)

// migrations returns the scripts that migrate from each schema version to the next. A released script is never changed.
//
// All tables refer to sessions.sid, a small integer, so a session's rows are neighbours in every index, and large
// B-trees grow at the end. If an exchange, an echo or feedback arrives before the session's own data, the session gets
// a row in which data is NULL.
//
// data is JSON. items holds an exchange's new list items. It is a separate column, because copying the items into data
// would take most of the encoding time. k is the first 8 bytes of a text id's SHA-256. at, started and seen are Unix
// microseconds.
//
// state is 0 before the session's data is written, then 1 (open), 2 (closed) or 3 (open, and set aside after a panic).
// The sessions_open index has only rows with state 1, so that updating seen and data changes no index. A session with
// exchanges but without data, which a crash can leave, is also open.
func migrations() []string {
	return []string{`
CREATE TABLE tenants(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);

CREATE TABLE sessions(sid INTEGER PRIMARY KEY AUTOINCREMENT, tenant INTEGER NOT NULL, started INTEGER NOT NULL, seen INTEGER NOT NULL,
  state INTEGER NOT NULL, id BLOB NOT NULL, data BLOB);
CREATE UNIQUE INDEX sessions_id ON sessions(id, tenant);
CREATE INDEX sessions_open ON sessions(started, id) WHERE state = 1;

-- Echoes of 24 bytes each, until schema 9.
CREATE TABLE echo_log(rid INTEGER PRIMARY KEY, v BLOB NOT NULL);
CREATE TABLE echo_runs(run INTEGER PRIMARY KEY, newest INTEGER NOT NULL, fences BLOB NOT NULL, bloom BLOB NOT NULL);
CREATE TABLE echo_blocks(id INTEGER PRIMARY KEY, v BLOB NOT NULL);

CREATE TABLE exchanges(rid INTEGER PRIMARY KEY, sid INTEGER NOT NULL, k INTEGER NOT NULL, tenant INTEGER NOT NULL,
  at INTEGER NOT NULL, data BLOB NOT NULL, items BLOB);
CREATE UNIQUE INDEX exchanges_key ON exchanges(sid, k);

CREATE TABLE samples(rid INTEGER PRIMARY KEY, sid INTEGER NOT NULL, k INTEGER NOT NULL, tenant INTEGER NOT NULL,
  at INTEGER NOT NULL, agent TEXT NOT NULL, data BLOB NOT NULL);
CREATE UNIQUE INDEX samples_key ON samples(sid, k);
CREATE INDEX samples_id ON samples(k);

CREATE TABLE feedback(rid INTEGER PRIMARY KEY, sid INTEGER NOT NULL, k INTEGER NOT NULL, data BLOB NOT NULL);
CREATE UNIQUE INDEX feedback_key ON feedback(sid, k);

CREATE TABLE parked(rid INTEGER PRIMARY KEY, echo INTEGER NOT NULL, k INTEGER NOT NULL, at INTEGER NOT NULL, data BLOB NOT NULL);
CREATE UNIQUE INDEX parked_key ON parked(echo, k);

CREATE TABLE settled(sid INTEGER PRIMARY KEY, version INTEGER NOT NULL, told INTEGER NOT NULL, reward INTEGER NOT NULL,
  tier INTEGER NOT NULL, frozen BLOB);
-- One row for all fields of a scope and day: a session touches some twenty rows instead of a hundred.
CREATE TABLE counters(tenant INTEGER NOT NULL, scope TEXT NOT NULL, day INTEGER NOT NULL, v BLOB NOT NULL,
  PRIMARY KEY(tenant, scope, day)) WITHOUT ROWID;
CREATE TABLE maxima(tenant INTEGER NOT NULL, scope TEXT NOT NULL, field TEXT NOT NULL, day INTEGER NOT NULL,
  value INTEGER NOT NULL, PRIMARY KEY(tenant, scope, field, day)) WITHOUT ROWID;
CREATE TABLE priors(tenant INTEGER PRIMARY KEY, version INTEGER NOT NULL, data BLOB NOT NULL);

CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
-- Running totals, changed in the transaction that changes what they count: counting ten million rows takes seconds.
CREATE TABLE totals(name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
`, `
-- Number of the tenant, so that ForgetTenant finds the feedback; 0: parked before schema 2.
ALTER TABLE parked ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
`, `
-- 1: a stand-in, made while the store did not answer; every other row replaces a stand-in.
ALTER TABLE sessions ADD COLUMN standin INTEGER NOT NULL DEFAULT 0;
-- n is the number of changes of a session since its last settlement, by feedback and by late exchanges.
CREATE TABLE unsettled(sid INTEGER PRIMARY KEY, n INTEGER NOT NULL);
`, `
-- x is the number of late exchanges in n, which have no sample yet.
ALTER TABLE unsettled ADD COLUMN x INTEGER NOT NULL DEFAULT 0;
-- Sessions and exchanges at which a step panicked. out is 1 for a session that is set aside, 0 for a readmitted session, 2 for an exchange.
CREATE TABLE aside(k INTEGER PRIMARY KEY, sid INTEGER NOT NULL, out INTEGER NOT NULL, tries INTEGER NOT NULL, at INTEGER NOT NULL,
  data BLOB NOT NULL);
CREATE INDEX aside_sid ON aside(sid);
`, `
-- Notes of the distiller on sessions and on tenants.
CREATE TABLE marks(sid INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE notes(tenant INTEGER NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY(tenant, key)) WITHOUT ROWID;
`, reopenScript, listIndexes, parkedCountScript, echoesTable}
}

// reopenScript reopens sessions that an older release closed without settling. Imported sessions are never settled, and
// stay closed.
const reopenScript = `
UPDATE sessions SET state = 1 WHERE state = 2 AND sid NOT IN (SELECT sid FROM settled)
  AND instr(coalesce(data, ''), CAST('"method":"import"' AS BLOB)) = 0;
`

// lateExchangeScript marks sessions as unsettled if exchanges arrived after their samples were built. The script
// compares an exchange's time with the newest sample's time, which is the end of the last exchange in the sample.
const lateExchangeScript = `
INSERT INTO unsettled(sid, n, x)
  SELECT e.sid, 1, count(*) FROM exchanges e JOIN settled USING(sid)
  WHERE e.at > (SELECT coalesce(max(m.at), 0) + 1000 FROM samples m WHERE m.sid = e.sid) GROUP BY e.sid
  ON CONFLICT(sid) DO UPDATE SET n = n + 1, x = x + excluded.x;
`

// listIndexes adds the indexes for ListSessions and ListSamples. Both grow only at the end, because the indexed times
// never change.
const listIndexes = `
CREATE INDEX IF NOT EXISTS sessions_newest ON sessions(tenant, started);
CREATE INDEX IF NOT EXISTS samples_newest ON samples(tenant, at);
`

// parkedCountScript adds a table with each tenant's number of parked feedback entries; triggers update the table.
const parkedCountScript = `
CREATE TABLE parked_of(tenant INTEGER PRIMARY KEY, n INTEGER NOT NULL);
INSERT INTO parked_of SELECT tenant, count(*) FROM parked GROUP BY tenant;
CREATE TRIGGER parked_in AFTER INSERT ON parked BEGIN
  INSERT INTO parked_of VALUES(new.tenant, 1) ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER parked_out AFTER DELETE ON parked BEGIN
  UPDATE parked_of SET n = n - 1 WHERE tenant = old.tenant;
  DELETE FROM parked_of WHERE tenant = old.tenant AND n = 0;
END;
`

const echoesTable = `
CREATE TABLE echoes(gen INTEGER NOT NULL, k INTEGER NOT NULL, sid INTEGER NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY(gen, k, sid)) WITHOUT ROWID;
`

// moveEchoes moves the echoes from schema 8 to schema 9. Schema 8 had a log and up to 128 sorted runs. Two runs become
// a generation. In schema 8 an echo was a key, a time and a session number.
func moveEchoes(c *conn) {
	for r := range c.query(`SELECT run / 2, v FROM (SELECT id >> 20 AS run, id, v FROM echo_blocks
		UNION ALL SELECT (SELECT coalesce(max(run), 0) + 1 FROM echo_runs), rid, v FROM echo_log) ORDER BY run, id`) {
		var gen int64
		var echoes []byte
		r.scan(&gen, &echoes)
		for b := echoes; len(b) >= 24; b = b[24:] {
			word := func(offset int) int64 { return int64(binary.LittleEndian.Uint64(b[offset:])) }
			c.exec(insertEcho, gen, word(0), word(16), word(8))
		}
	}
	c.script("DROP TABLE echo_log; DROP TABLE echo_runs; DROP TABLE echo_blocks")
}

// readVersion returns the file's schema version; 0 means an empty file. It records a failure for a file from another
// program or a newer release.
func readVersion(c *conn) int {
	app, v := c.queryInt("PRAGMA application_id"), c.queryInt("PRAGMA user_version")
	tables := c.queryInt("SELECT count(*) FROM sqlite_schema")
	switch {
	case app != applicationID && (app != 0 || v != 0 || tables != 0):
		c.fail(fmt.Errorf("%w (application id %#x): write another file name in store.url", ErrForeign, app))
	case v > schemaVersion:
		c.fail(fmt.Errorf("%w (the file has schema %d, this release knows %d): upgrade precept, or restore a copy from before the upgrade",
			ErrNewer, v, schemaVersion))
	}
	return int(v)
}

// migrate runs the missing scripts. Each script's transaction also writes the version number. from is the previous
// schema version, or schemaVersion for an empty file.
func migrate(c *conn) (from int) {
	from = readVersion(c)
	for v := from + 1; v <= schemaVersion && c.canContinue(); v++ {
		c.script("BEGIN IMMEDIATE;\n" + migrations()[v-1])
		if v == reopenVersion && 0 < from && from < lateExchangeVersion {
			c.script(lateExchangeScript)
		}
		if v == echoVersion {
			moveEchoes(c)
		}
		c.script(fmt.Sprintf("PRAGMA application_id = %d;\nPRAGMA user_version = %d;\nCOMMIT;", applicationID, v))
		if c.err != nil {
			c.err = fmt.Errorf("migrate schema %d to %d: %w", v-1, v, c.err)
			_ = c.rollback() // c.err holds the cause
		}
	}
	if from == 0 {
		return schemaVersion
	}
	return from
}
