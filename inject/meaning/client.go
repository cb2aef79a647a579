package meaning

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"
)

const (
	maxBatch       = 64       // texts per request
	maxAnswer      = 32 << 20 // bytes
	requestTimeout = 30 * time.Second
	maxDimensions  = 4096
	maxTextSize    = 2000 // bytes per text
)

// Client asks an OpenAI-compatible API for embeddings.
type Client struct {
	URL   string // in the form used by OPENAI_BASE_URL
	Model string
	Key   string // "" means no key is sent
	HTTP  *http.Client
}

// embed returns unit vectors for at most maxBatch texts. Errors do not contain the text of the response, because a
// server may repeat the key in it.
func (c *Client) embed(ctx context.Context, texts []string) ([][]float32, error) {
	data, err := json.Marshal(map[string]any{"model": c.Model, "input": texts})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.URL, "/")+"/embeddings", bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("match.embeddings.upstream: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for embeddings: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the embeddings: %w", err)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the embeddings server answered with status %d; check match.embeddings.upstream, model and api_key", res.StatusCode)
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("the embeddings server sent more than %d bytes; check match.embeddings.upstream and model", maxAnswer)
	}
	return readVectors(raw, len(texts))
}

var errMalformed = errors.New("the embeddings server did not send one vector per text; check match.embeddings.upstream and model")

// readVectors scales each vector to length 1.
func readVectors(raw []byte, n int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index  int       `json:"index"`
			Vector []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Data) != n {
		return nil, errMalformed
	}
	out := make([][]float32, n)
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= n || out[d.Index] != nil || len(d.Vector) > maxDimensions || len(d.Vector) != len(answer.Data[0].Vector) {
			return nil, errMalformed
		}
		length := math.Sqrt(float64(dot(d.Vector, d.Vector)))
		if length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
			return nil, errMalformed
		}
		for i := range d.Vector {
			d.Vector[i] /= float32(length)
		}
		out[d.Index] = d.Vector
	}
	return out, nil
}

// dot returns the cosine of two unit vectors. It returns 0 if the dimensions differ, as for vectors from different
// models.
func dot(a, b []float32) (sum float32) {
	if len(a) != len(b) {
		return 0
	}
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
