package storetest

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// clusterNodes is the smallest number of masters of a Redis Cluster.
const clusterNodes = 3

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// Cluster is a real Redis Cluster of three masters without replicas.
type Cluster struct {
	Nodes []*Redis
	tls   []string // addresses of the TLS listeners; nil: none
}

// StartCluster starts a Cluster on free ports, and waits until each node reports that the Cluster
// is complete.
func StartCluster(t *testing.T, args ...string) *Cluster {
	t.Helper()
	return startCluster(t, nil, args...)
}

// StartClusterTLS starts a Cluster whose nodes use TLS among themselves and require client
// certificates.
func StartClusterTLS(t *testing.T, s *Secrets, args ...string) *Cluster {
	t.Helper()
	skipWithoutTLS(t)
	return startCluster(t, s, append([]string{"--tls-cluster", "yes"}, args...)...)
}

func startCluster(t *testing.T, s *Secrets, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	var buses []string
	for range clusterNodes {
		bus := freePort(t)
		buses = append(buses, bus)
		own := append([]string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "15000"}, args...)
		if s != nil {
			port := freePort(t)
			c.tls = append(c.tls, net.JoinHostPort("127.0.0.1", port))
			own = append(own, s.Args(port, "yes")...)
		}
		c.Nodes = append(c.Nodes, StartRedis(t, own...))
	}
	for i, n := range c.Nodes {
		from, to := i*slots/clusterNodes, (i+1)*slots/clusterNodes-1
		n.Must(t, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(from), fmt.Sprint(to))
		n.Must(t, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	for i, n := range c.Nodes[1:] {
		host, port, _ := net.SplitHostPort(n.Addr)
		if c.tls != nil {
			_, port, _ = net.SplitHostPort(c.tls[i+1])
		}
		c.Nodes[0].Must(t, "CLUSTER", "MEET", host, port, buses[i+1])
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
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { //nolint:forbidigo // processes outside of the test's clock
		info, _ = n.Must(t, "CLUSTER", "INFO").(string)
		known := fmt.Sprintf("cluster_known_nodes:%d\r\n", clusterNodes)
		if strings.Contains(info, "cluster_state:ok\r\n") && strings.Contains(info, known) && strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d\r\n", slots)) {
			return
		}
	}
	t.Fatalf("the Cluster does not come together; %s says\n%s", n.Addr, info)
}

// URL returns the address for store.url, with parameters ("prefix=x").
func (c *Cluster) URL(parameters ...string) string {
	hosts := slices.Clone(c.tls)
	if c.tls == nil {
		for _, n := range c.Nodes {
			hosts = append(hosts, n.Addr)
		}
	}
	return "redis://" + strings.Join(hosts, ",") + "?" + strings.Join(append([]string{"cluster=true"}, parameters...), "&")
}
