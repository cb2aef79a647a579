# The image holds a static binary and the certificates of public authorities: no shell, no package manager, no root.
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t precept .
#   export PRECEPT_ADMIN_TOKEN=$(openssl rand -hex 32)
#   docker run --read-only --cap-drop ALL --security-opt no-new-privileges --user 65532:65532 \
#     -p 127.0.0.1:8080:8080 -p 127.0.0.1:8081:8081 -e PRECEPT_ADMIN_TOKEN \
#     -v precept-data:/data -v "$PWD/lessons:/lessons:ro" precept
# Go cross-compiles for another platform (docker build --platform linux/arm64): the compiler runs on the building machine.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
ARG TARGETOS TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The version that `precept version`, the dashboard and precept_build_info show. The image is built without the Git directory.
ARG VERSION=
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
   -ldflags="-s -w -X precept/cmd/precept/server.version=$VERSION" -o /out/precept ./cmd/precept \
 && mkdir -p /out/data /out/lessons

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/precept /precept
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/lessons /lessons
USER 65532:65532
ENV PRECEPT_LISTEN=0.0.0.0:8080 PRECEPT_ADMIN_LISTEN=0.0.0.0:8081 PRECEPT_DATA_DIR=/data PRECEPT_LESSONS=/lessons
EXPOSE 8080 8081
VOLUME /data
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["/precept", "ready"]
ENTRYPOINT ["/precept"]
CMD ["serve"]
