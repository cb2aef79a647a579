package detect_test

import (
	"testing"

	"precept/detect"
)

func TestResultHashIgnoresVolatileIDs(t *testing.T) {
	for _, pair := range [][2]string{
		{"goroutine 7 [running]:", "goroutine 12 [running]:"},
		{"request id: req_011CSHoEeqs5C35K2UUqR7Fy", "request id: req_022DTIpFfrt6D46L3VVrS8Gz"},
		{"request_id=abcdefgh", "request_id=ijklmnop"},
		{"x-request-id: 7Ykwq9", "x-request-id: Zz81pl"},
		{"RequestId: 4A2B-XYZ", "RequestId: 9C7D-QRS"},
		{"trace id 4bf92f3577b34da6a3ce929d0e0e4736", "trace id 0af7651916cd43dd8448eb211c80319c"},
		{"10.0.0.7:51334: connection refused", "10.0.0.7:51990: connection refused"},
		{"read tcp 127.0.0.1:5000->127.0.0.1:6000: reset", "read tcp 127.0.0.1:5017->127.0.0.1:6000: reset"},
		{"read tcp 10.1.2.3:5000->10.9.9.9:443: reset", "read tcp 10.1.2.3:5017->10.9.9.9:443: reset"},
		{"correlation id: a1", "correlation id: b2"},
		{`{"took_ms": 41}`, `{"took_ms": 52}`},
		{"elapsed: 0.4", "elapsed: 0.7"},
		{"Time elapsed: 0.4 s <<< FAIL", "Time elapsed: 0.7 s <<< FAIL"},
		{"(reference: abcdef)", "(reference: ghijkl)"},
		{"shop.Cart@1b2c6e", "shop.Cart@70177f"},
		{"job 01JC4X7K9Q", "job 07TB2M5R8W"},
		{"nginx[71]: bad host", "nginx[82]: bad host"},
		{"==71== invalid read", "==82== invalid read"},
		{"attempt 2 failed", "attempt 3 failed"},
		{"at 1.2 MB/s", "at 3.4 MB/s"},
		{"object at 0x7f8a3c0", "object at 0x7f8b990"},
	} {
		if detect.ResultHash(pair[0]) != detect.ResultHash(pair[1]) {
			t.Errorf("%q and %q have different hashes", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{
		{"HTTP 404 at /orders", "HTTP 404 at /users"},
		{"id: 7", "id: 8"},
		{"order id: 7", "order id: 8"},
		{"listening on 10.0.0.7:8080", "listening on 10.0.0.8:8080"},
	} {
		if detect.ResultHash(pair[0]) == detect.ResultHash(pair[1]) {
			t.Errorf("%q and %q have the same hash", pair[0], pair[1])
		}
	}
}
