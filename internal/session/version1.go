package session

import (
	"encoding/json"
	"maps"
)

// Up to November 2026 (version 1), a record was a flat JSON object with short keys. The tables in this file map the
// keys to those in document.

// version1Parts returns maps from version 1 keys to current keys, by document part. An empty current key means that
// the value is the whole part.
func version1Parts() map[string]map[string]string {
	return map[string]map[string]string{
		"identity": {
			"tenant": "tenant", "agent": "agent", "name": "name", "method": "method", "started": "started", "seen": "seen",
			"model": "model", "dialect": "dialect",
		},
		"unit": {"unit": "id", "rn": "run", "seat": "member_no", "mem": "members", "isrun": "is_run"},
		"thread": {
			"turns": "turns", "list": "list_hash", "items": "items", "from": "items_before", "tail": "last_turn", "replied": "replied",
			"fw": "first_words", "calls": "calls", "co": "call_order", "used": "used",
		},
		"agents": {
			"tools": "has_tools", "sys": "system_hash", "th": "tools_hash", "tn": "tool_names", "hd": "toolless", "ld": "former",
		},
		"assignment": {"asg": ""},
		"lessons":    {"matched": "matched", "blocks": "blocks", "bb": "block_bytes", "sp": "picks_spent", "loops": "loops"},
		"opt_out":    {"nolearn": "no_learn", "oo": "turns"},
		"mailbox":    {"wa": "answers", "wo": "owed", "wt": "offered"},
		"state":      {"closed": "closed", "refused": "refused", "db": "doubted", "si": "stand_in"},
	}
}

// version1InnerKeys returns maps from version 1 keys to current keys, by the version 1 key of the surrounding object or
// list of objects.
func version1InnerKeys() map[string]map[string]string {
	return map[string]map[string]string{
		"tail":  {"f": "from", "k": "items", "c": "answered", "r": "reply"},
		"loops": {"w": "warned", "n": "count", "d": "delta"},
		"blocks": {
			"a": "anchor", "t": "text", "n": "turn", "s": "slugs", "l": "loop", "o": "once", "g": "gone", "m": "moved", "r": "again",
		},
	}
}

func decodeVersion1(data []byte) (d document, err error) {
	var old map[string]json.RawMessage
	if err := json.Unmarshal(data, &old); err != nil {
		return d, err
	}
	for key, names := range version1InnerKeys() {
		if old[key], err = renameKeys(old[key], names); err != nil {
			return d, err
		}
	}
	current := map[string]any{}
	for part, keys := range version1Parts() {
		values := map[string]json.RawMessage{}
		for key, name := range keys {
			switch value := old[key]; {
			case value == nil:
			case name == "":
				current[part] = value
			default:
				values[name] = value
			}
		}
		if len(values) > 0 {
			current[part] = values
		}
	}
	text, err := json.Marshal(current)
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(text, &d)
}

// renameKeys renames the keys in an object, or in each object in a list. It drops other keys.
func renameKeys(value json.RawMessage, names map[string]string) (json.RawMessage, error) {
	if value == nil {
		return nil, nil
	}
	renameObject := func(old map[string]json.RawMessage) map[string]json.RawMessage {
		out := maps.Clone(old)
		clear(out)
		for key, v := range old {
			if name, ok := names[key]; ok {
				out[name] = v
			}
		}
		return out
	}
	var list []map[string]json.RawMessage
	if json.Unmarshal(value, &list) == nil {
		for i := range list {
			list[i] = renameObject(list[i])
		}
		return json.Marshal(list)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(value, &object); err != nil {
		return nil, err
	}
	return json.Marshal(renameObject(object))
}
