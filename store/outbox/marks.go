package outbox

import (
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Mark records that all turns of a session opted out, and counts the turns and items. Name is a hash that does not
// reveal the session.
type Mark struct {
	Name         uint64
	Turns, Items uint32
}

// Marks returns all marks, oldest first.
func (o *Outbox) Marks() (list []Mark, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	err = sqlitex.Execute(o.writer, "SELECT name, turns, items FROM optout_marks ORDER BY place", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			list = append(list, Mark{Name: uint64(s.ColumnInt64(0)), Turns: uint32(s.ColumnInt64(1)), Items: uint32(s.ColumnInt64(2))})
			return nil
		},
	})
	return list, classifyError(err)
}

// AddMarks writes marks, and deletes the oldest marks until at most maxMarks remain.
func (o *Outbox) AddMarks(list []Mark, maxMarks int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writeWithRepair(func() error {
		return o.transact(func() error {
			for _, m := range list {
				// A mark already in the table keeps its place, so that the oldest session's mark is deleted first.
				err := execute(o.writer, `INSERT INTO optout_marks (name, turns, items, place)
					VALUES (?, ?, ?, (SELECT coalesce(max(place), 0) + 1 FROM optout_marks))
					ON CONFLICT (name) DO UPDATE SET turns = excluded.turns, items = excluded.items`, int64(m.Name), int64(m.Turns), int64(m.Items))
				if err != nil {
					return err
				}
			}
			return execute(o.writer, `DELETE FROM optout_marks WHERE place <= (SELECT place FROM optout_marks ORDER BY place DESC LIMIT 1 OFFSET ?)`, maxMarks)
		})
	})
}
