package admin

import (
	_ "embed" // the description
	"net/http"

	"github.com/labstack/echo/v4"
)

// description is the OpenAPI document of both listeners. Tests hold it to the routes and to the
// answers.
//
//go:embed openapi.yaml
var description []byte //nolint:gochecknoglobals // embedded, never written

// describe answers GET /api/openapi.yaml.
func describe(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", description)
}
