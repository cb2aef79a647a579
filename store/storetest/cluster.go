package storetest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// minClusterNodes is the minimum number of masters in a Redis Cluster.
const minClusterNodes = 3

const clusterSlots = 16384

// Cluster is a real Redis Cluster with masters but no replicas.
type Cluster struct {
	Nodes []*Redis
	tls   []string // the nodes' TLS options; nil means no TLS
}

// StartCluster starts a Cluster with three nodes; see StartClusterNodes.
func StartCluster(t *testing.T, args ...string) *Cluster {
	t.Helper()
	return StartClusterNodes(t, minClusterNodes, args...)
}

// StartClusterNodes starts a complete Cluster on free ports, and gives each node the same number of slots. The options
// in args apply to each node.
func StartClusterNodes(t *testing.T, nodes int, args ...string) *Cluster {
	t.Helper()
	return startCluster(t, nodes, nil, args...)
}

// StartClusterTLS starts a Cluster with three nodes that use TLS between nodes and require client certificates.
func StartClusterTLS(t *testing.T, files *TLSFiles, args ...string) *Cluster {
	t.Helper()
	skipWithoutTLS(t)
	return startCluster(t, minClusterNodes, files, append([]string{"--tls-cluster", "yes"}, args...)...)
}

func startCluster(t *testing.T, nodes int, files *TLSFiles, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	var buses []string
	for range nodes {
		bus := FreePort(t)
		buses = append(buses, bus)
		options := append([]string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "15000"}, args...)
		if files != nil {
			port := FreePort(t)
			c.tls = append(c.tls, net.JoinHostPort("127.0.0.1", port))
			options = append(options, files.Args(port, "yes")...)
		}
		c.Nodes = append(c.Nodes, StartRedis(t, options...))
	}
	for i, n := range c.Nodes {
		from, to := i*clusterSlots/nodes, (i+1)*clusterSlots/nodes-1
		n.MustDo(t, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(from), fmt.Sprint(to))
		n.MustDo(t, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	for i, addr := range c.addrs()[1:] {
		host, port, _ := net.SplitHostPort(addr)
		c.Nodes[0].MustDo(t, "CLUSTER", "MEET", host, port, buses[i+1])
	}
	for _, n := range c.Nodes {
		c.await(t, n)
	}
	return c
}

// await waits until a node knows all other nodes and every slot.
func (c *Cluster) await(t *testing.T, n *Redis) {
	t.Helper()
	info := ""
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { //nolint:forbidigo // the servers use the real clock
		info, _ = n.MustDo(t, "CLUSTER", "INFO").(string)
		known := fmt.Sprintf("cluster_known_nodes:%d\r\n", len(c.Nodes))
		if strings.Contains(info, "cluster_state:ok\r\n") && strings.Contains(info, known) && strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d\r\n", clusterSlots)) {
			return
		}
	}
	t.Fatalf("node %s did not report a complete Cluster within %v:\n%s", n.Addr, startLimit, info)
}

// MoveSlot moves a slot and its keys from one node to another, key by key, like redis-cli.
func (c *Cluster) MoveSlot(slot string, from, to *Redis) error {
	source, err := from.Do("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	target, err := to.Do("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(c.addrs()[slices.Index(c.Nodes, to)])
	_, err1 := to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fmt.Sprint(source))
	_, err2 := from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", fmt.Sprint(target))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for {
		list, err := from.Do("CLUSTER", "GETKEYSINSLOT", slot, "100")
		keys, _ := list.([]any)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			if _, err := from.Do("MIGRATE", host, port, fmt.Sprint(key), "0", "5000"); err != nil {
				return err
			}
		}
	}
	for _, n := range append([]*Redis{to, from}, c.Nodes...) {
		if _, err := n.Do("CLUSTER", "SETSLOT", slot, "NODE", fmt.Sprint(target)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) addrs() []string {
	if c.tls != nil {
		return c.tls
	}
	var list []string
	for _, n := range c.Nodes {
		list = append(list, n.Addr)
	}
	return list
}

// URL returns the address for store.url, with additional parameters such as "prefix=x".
func (c *Cluster) URL(parameters ...string) string {
	return "redis://" + strings.Join(c.addrs(), ",") + "?" + strings.Join(append([]string{"cluster=true"}, parameters...), "&")
}
