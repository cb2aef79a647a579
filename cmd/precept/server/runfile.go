package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"precept/internal/file"
)

// RunFile is <data_dir>/run.json: where the precept of this data directory is reached.
type RunFile struct {
	PID   int    `json:"pid"`
	Data  string `json:"data"`
	Admin string `json:"admin"`
}

// RunFilePath is where it lies.
func RunFilePath(dataDir string) string { return filepath.Join(dataDir, "run.json") }

// WriteRunFile writes the whole file or none: who waits for it may read it at once.
func WriteRunFile(dataDir string, r RunFile) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return file.Write(RunFilePath(dataDir), 0o600, b, []byte("\n"))
}

// removeRunFile is for a clean stop; a file that is not there was not ours to remove.
func removeRunFile(dataDir string) { _ = os.Remove(RunFilePath(dataDir)) }

// ReadRunFile finds the precept of a data directory. After a crash the file may be stale: who uses
// it tries the address.
func ReadRunFile(dataDir string) (RunFile, error) {
	var r RunFile
	b, err := os.ReadFile(RunFilePath(dataDir))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", RunFilePath(dataDir), err)
	}
	return r, nil
}

// localURL is how this machine reaches a listener: one on every address is reached on loopback.
func localURL(a net.Addr) string {
	address, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return "http://" + a.String()
	}
	if ip := address.Addr(); ip.IsUnspecified() {
		address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), address.Port())
	}
	return "http://" + address.String()
}
