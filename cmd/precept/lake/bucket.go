package lake

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket stores a lake's files in S3 or in an S3-compatible server.
type bucket struct {
	client       *minio.Client
	name, prefix string
}

// newBucket returns the storage at the address BUCKET/PREFIX, after checking endpoint and credentials.
func newBucket(address, endpoint string, env func(string) string) (*bucket, error) {
	name, prefix, _ := strings.Cut(address, "/")
	if name == "" {
		return nil, errors.New("--output s3:// lacks a bucket name; write s3://BUCKET/PREFIX")
	}
	endpoint = cmp.Or(endpoint, env("AWS_ENDPOINT_URL_S3"), env("AWS_ENDPOINT_URL"))
	options := &minio.Options{
		Secure: true, Region: cmp.Or(env("AWS_REGION"), env("AWS_DEFAULT_REGION"), "us-east-1"),
	}
	sources := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	host := "s3." + options.Region + ".amazonaws.com"
	if endpoint == "" {
		sources = append(sources, &credentials.IAM{})
	} else {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			return nil, fmt.Errorf("invalid S3 endpoint %q; write --s3-endpoint https://HOST:PORT, or set AWS_ENDPOINT_URL_S3", endpoint)
		}
		host, options.Secure, options.BucketLookup = u.Host, u.Scheme == "https", minio.BucketLookupPath
	}
	options.Creds = credentials.NewChainCredentials(sources)
	if keys, err := options.Creds.GetWithContext(nil); err != nil || keys.AccessKeyID == "" {
		return nil, errors.New("no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a profile in ~/.aws/credentials (AWS_PROFILE)")
	}
	client, err := minio.New(host, options)
	if err != nil {
		return nil, fmt.Errorf("S3: %w", err)
	}
	return &bucket{client: client, name: name, prefix: strings.Trim(prefix, "/")}, nil
}

// String returns the address as s3://BUCKET/PREFIX.
func (b *bucket) String() string { return strings.TrimSuffix("s3://"+b.name+"/"+b.prefix, "/") }

func (b *bucket) key(name string) string { return path.Join(b.prefix, name) }

// Get implements Storage.
func (b *bucket) Get(ctx context.Context, name string) (data []byte, version string, err error) {
	object, err := b.client.GetObject(ctx, b.name, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, "", b.wrapError(name, err)
	}
	defer object.Close() //nolint:errcheck // nothing was written
	if data, err = io.ReadAll(object); err != nil {
		return nil, "", b.wrapError(name, err)
	}
	info, err := object.Stat()
	return data, info.ETag, b.wrapError(name, err)
}

// Put implements Storage with one atomic request.
func (b *bucket) Put(ctx context.Context, name string, data []byte) error {
	_, err := b.put(ctx, name, data, minio.PutObjectOptions{})
	return err
}

// CompareAndSwap implements Storage with one conditional request.
func (b *bucket) CompareAndSwap(ctx context.Context, name, version string, data []byte) (next string, err error) {
	var options minio.PutObjectOptions
	if version == "" {
		options.SetMatchETagExcept("*")
	} else {
		options.SetMatchETag(version)
	}
	return b.put(ctx, name, data, options)
}

func (b *bucket) put(ctx context.Context, name string, data []byte, options minio.PutObjectOptions) (version string, err error) {
	options.DisableMultipart, options.ContentType = true, "application/octet-stream"
	info, err := b.client.PutObject(ctx, b.name, b.key(name), bytes.NewReader(data), int64(len(data)), options)
	return info.ETag, b.wrapError(name, err)
}

// wrapError adds the object's address and a remedy.
func (b *bucket) wrapError(name string, err error) error {
	if err == nil {
		return nil
	}
	address := b.String() + "/" + name
	var response minio.ErrorResponse
	if !errors.As(err, &response) {
		return fmt.Errorf("%s: %w", address, err)
	}
	remedy := ""
	switch response.Code {
	case "NoSuchKey":
		return fmt.Errorf("%s: %w", address, fs.ErrNotExist)
	case "PreconditionFailed", "ConditionalRequestConflict":
		return fmt.Errorf("%s: %w", address, ErrChanged)
	case "NotImplemented":
		remedy = "the server does not support conditional writes (If-Match, If-None-Match); use a newer server, or --output DIR"
	case "NoSuchBucket":
		remedy = "create the bucket, or correct --output"
	case "AccessDenied":
		remedy = "allow s3:GetObject, s3:PutObject and s3:ListBucket for the bucket"
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken":
		remedy = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
	case "AuthorizationHeaderMalformed", "PermanentRedirect":
		remedy = "set AWS_REGION to the bucket's region"
	default:
		return fmt.Errorf("%s: %w", address, err)
	}
	return &permanentError{fmt.Errorf("%s: %w; %s", address, err, remedy)}
}

// permanentError is an error from the S3 server that a retry would not resolve.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }

func (e *permanentError) Unwrap() error { return e.err }
