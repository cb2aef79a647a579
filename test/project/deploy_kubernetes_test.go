package project

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/test/harness"

	"github.com/goccy/go-yaml"

	"precept/store/storetest"
)

// The types have only the fields that the manifests in deploy/kubernetes use, so decodeStrictly reports a misspelt
// field. The API server might ignore the field.
type (
	kubeMeta struct {
		Name   string
		Labels map[string]string
	}
	kubeSelector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	KubeHead struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   kubeMeta
	}
	kubeConfigMap struct {
		KubeHead `yaml:",inline"`
		Data     map[string]string
	}
	kubeSecret struct {
		KubeHead   `yaml:",inline"`
		Type       string
		StringData map[string]string `yaml:"stringData"`
	}
	kubeService struct {
		KubeHead `yaml:",inline"`
		Spec     struct {
			ClusterIP                string `yaml:"clusterIP"`
			PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
			Selector                 map[string]string
			Ports                    []struct {
				Name       string
				Port       int
				TargetPort string `yaml:"targetPort"`
			}
		}
	}
	kubeBudget struct {
		KubeHead `yaml:",inline"`
		Spec     struct {
			MaxUnavailable int `yaml:"maxUnavailable"`
			Selector       kubeSelector
		}
	}
	kubeKustomization struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Resources  []string
	}
	kubeProbe struct {
		HTTPGet struct {
			Path string
			Port string
		} `yaml:"httpGet"`
		PeriodSeconds    int `yaml:"periodSeconds"`
		TimeoutSeconds   int `yaml:"timeoutSeconds"`
		FailureThreshold int `yaml:"failureThreshold"`
	}
	kubeVolumeMount struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	}
	kubeContainer struct {
		Name, Image string
		Args        []string
		Env         []struct {
			Name, Value string
			ValueFrom   struct {
				SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
			} `yaml:"valueFrom"`
		}
		Ports []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		StartupProbe   kubeProbe `yaml:"startupProbe"`
		LivenessProbe  kubeProbe `yaml:"livenessProbe"`
		ReadinessProbe kubeProbe `yaml:"readinessProbe"`
		Lifecycle      struct {
			PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
		}
		Resources       struct{ Requests, Limits struct{ CPU, Memory string } }
		SecurityContext struct {
			AllowPrivilegeEscalation bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string }
		} `yaml:"securityContext"`
		VolumeMounts []kubeVolumeMount `yaml:"volumeMounts"`
	}
	kubePod struct {
		AutomountServiceAccountToken  bool `yaml:"automountServiceAccountToken"`
		TerminationGracePeriodSeconds int  `yaml:"terminationGracePeriodSeconds"`
		SecurityContext               struct {
			RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
			RunAsUser      int                   `yaml:"runAsUser"`
			RunAsGroup     int                   `yaml:"runAsGroup"`
			FSGroup        int                   `yaml:"fsGroup"`
			SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		TopologySpreadConstraints []struct {
			MaxSkew           int          `yaml:"maxSkew"`
			TopologyKey       string       `yaml:"topologyKey"`
			WhenUnsatisfiable string       `yaml:"whenUnsatisfiable"`
			LabelSelector     kubeSelector `yaml:"labelSelector"`
		} `yaml:"topologySpreadConstraints"`
		Containers []kubeContainer
		Volumes    []struct {
			Name      string
			ConfigMap struct{ Name string } `yaml:"configMap"`
		}
	}
	kubeStatefulSet struct {
		KubeHead `yaml:",inline"`
		Spec     struct {
			Replicas            int
			ServiceName         string `yaml:"serviceName"`
			PodManagementPolicy string `yaml:"podManagementPolicy"`
			Selector            kubeSelector
			Template            struct {
				Metadata kubeMeta
				Spec     kubePod
			}
			VolumeClaimTemplates []struct {
				Metadata kubeMeta
				Spec     struct {
					AccessModes []string `yaml:"accessModes"`
					Resources   struct{ Requests struct{ Storage string } }
				}
			} `yaml:"volumeClaimTemplates"`
		}
	}
)

type kubernetes struct {
	config           kubeConfigMap
	secret           kubeSecret
	services         map[string]*kubeService
	statefulSet      kubeStatefulSet
	disruptionBudget kubeBudget
}

// readKubernetes returns the decoded manifests in deploy/kubernetes.
func readKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	k := &kubernetes{services: map[string]*kubeService{}}
	var services []*kubeService
	target := func(document []byte) any {
		var head struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
		}
		if err := yaml.Unmarshal(document, &head); err != nil {
			t.Fatal(err)
		}
		switch head.APIVersion + " " + head.Kind {
		case "v1 ConfigMap":
			return &k.config
		case "v1 Secret":
			return &k.secret
		case "v1 Service":
			services = append(services, &kubeService{})
			return services[len(services)-1]
		case "apps/v1 StatefulSet":
			return &k.statefulSet
		case "policy/v1 PodDisruptionBudget":
			return &k.disruptionBudget
		case "kustomize.config.k8s.io/v1beta1 Kustomization":
			return &kubeKustomization{}
		}
		t.Fatalf("unknown manifest kind %s %s: add it to readKubernetes", head.APIVersion, head.Kind)
		return nil
	}
	files, err := filepath.Glob(filepath.Join(repo, "deploy", "kubernetes", "*.yaml"))
	if err != nil || len(files) < 6 {
		t.Fatalf("files in deploy/kubernetes: got %v, error %v, want at least 6", files, err)
	}
	for _, file := range files {
		decodeStrictly(t, "deploy/kubernetes/"+filepath.Base(file), target)
	}
	for _, s := range services {
		k.services[s.Metadata.Name] = s
	}
	return k
}

func (k *kubernetes) container() *kubeContainer {
	return &k.statefulSet.Spec.Template.Spec.Containers[0]
}

// kubeToken is the token that the tests use instead of the placeholder in secret.example.yaml.
const kubeToken = "0123456789abcdef0123456789abcdef"

func (k *kubernetes) env(t *testing.T) map[string]string {
	t.Helper()
	env := imageEnv(t)
	for _, e := range k.container().Env {
		if ref := e.ValueFrom.SecretKeyRef; ref.Key != "" {
			if e.Value = k.secret.StringData[ref.Key]; ref.Name != k.secret.Metadata.Name || e.Value == "" {
				t.Errorf("%s refers to secret %s/%s, which secret.example.yaml does not define", e.Name, ref.Name, ref.Key)
			}
			if ref.Key == "admin-token" {
				e.Value = kubeToken
			}
		}
		env[e.Name] = e.Value
	}
	return env
}

// mount writes the ConfigMap to dir as the kubelet does. The files are in dir/version, the symbolic link dir/..data
// points to dir/version, and for each file there is a symbolic link in dir that points into ..data. A later call
// replaces the link ..data.
func (k *kubernetes) mount(t *testing.T, dir, version string, change func(string) string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range k.config.Data {
		if err := os.WriteFile(filepath.Join(dir, version, name), []byte(change(text)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatalf("link %s: %v", name, err)
		}
	}
	if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// args returns the arguments of the container, in which dir replaces the directory where the ConfigMap is mounted.
func (k *kubernetes) args(t *testing.T, dir string) []string {
	t.Helper()
	c := k.container()
	i := slices.IndexFunc(c.VolumeMounts, func(m kubeVolumeMount) bool { return m.Name == "config" })
	if i < 0 {
		t.Fatal("the container has no volume mount named config")
	}
	out := slices.Clone(c.Args)
	for n, arg := range out {
		if name, ok := strings.CutPrefix(arg, c.VolumeMounts[i].MountPath+"/"); ok {
			if _, ok := k.config.Data[name]; !ok {
				t.Errorf("arguments name file %s, which is not a key in the ConfigMap", name)
			}
			out[n] = filepath.Join(dir, name)
		}
	}
	return out
}

func TestKubernetesManifestsAgree(t *testing.T) {
	t.Parallel()
	k := readKubernetes(t)
	set, pod, c := k.statefulSet.Spec, k.statefulSet.Spec.Template.Spec, k.container()
	for name, labels := range map[string]map[string]string{
		"StatefulSet": set.Selector.MatchLabels, "PodDisruptionBudget": k.disruptionBudget.Spec.Selector.MatchLabels,
		"topology spread": pod.TopologySpreadConstraints[0].LabelSelector.MatchLabels, "service precept": k.services["precept"].Spec.Selector,
		"service precept-admin": k.services["precept-admin"].Spec.Selector, "service of the StatefulSet": k.services[set.ServiceName].Spec.Selector,
	} {
		if !maps.Equal(labels, set.Template.Metadata.Labels) {
			t.Errorf("%s: got selector %v, want %v, the labels of the pods", name, labels, set.Template.Metadata.Labels)
		}
	}
	dir := t.TempDir()
	k.mount(t, dir, "..1", func(s string) string { return s })
	env := k.env(t)
	checkVariables(t, "statefulset.yaml", env)
	checkCommandLine(t, "statefulset.yaml", c.Args)
	config := readEffectiveConfig(t, env, k.args(t, dir)...)
	ports := map[string]int{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	want, err := json.Marshal(map[string]json.Number{"data": json.Number(portOf(t, config.Listen)), "admin": json.Number(portOf(t, config.Admin.Listen))})
	if got, _ := json.Marshal(ports); err != nil || string(got) != string(want) {
		t.Errorf("container ports: got %s, want %s", got, want)
	}
	for _, s := range k.services {
		for _, p := range s.Spec.Ports {
			if ports[p.TargetPort] != p.Port {
				t.Errorf("service %s: got port %+v, want a port with the name and number of a container port", s.Metadata.Name, p)
			}
		}
	}
	if config.Lessons != "redis://" || config.DataDir != c.VolumeMounts[0].MountPath || set.VolumeClaimTemplates[0].Metadata.Name != c.VolumeMounts[0].Name || !slices.Contains(config.Admin.Hosts, "precept-admin") {
		t.Errorf(`configuration: got %+v, want lessons in Redis, the data in %q on volume %q, and the host precept-admin`, config, c.VolumeMounts[0].MountPath, c.VolumeMounts[0].Name)
	}
	sleep := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if grace := time.Duration(pod.TerminationGracePeriodSeconds) * time.Second; sleep <= 0 || grace <= sleep+maxStopDuration {
		t.Errorf("pod: got preStop sleep %s and termination grace period %s, want a sleep above 0 and a period above %s", sleep, grace, sleep+maxStopDuration)
	}
	if !pod.SecurityContext.RunAsNonRoot || !strings.Contains(readRepoFile(t, "Dockerfile"), "USER 65532:65532") || pod.SecurityContext.RunAsUser != 65532 || !c.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("pod: got security context %+v, read-only root file system %v, want user 65532 as in the Dockerfile, runAsNonRoot, and a read-only root file system",
			pod.SecurityContext, c.SecurityContext.ReadOnlyRootFilesystem)
	}
}

// The placeholder in the repository is public, so precept must not accept it as a token.
func TestKubernetesSecretPlaceholderIsRefused(t *testing.T) {
	t.Parallel()
	k := readKubernetes(t)
	env := k.env(t)
	env["PRECEPT_ADMIN_TOKEN"] = k.secret.StringData["admin-token"]
	c := exec.CommandContext(t.Context(), "precept", "check")
	c.Dir, c.Env = t.TempDir(), append(envList(env), "PATH="+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "is too short, because other machines can reach the admin listener") {
		t.Errorf("precept check with the placeholder as the token: got error %v, output %s, want an error about the token", err, out)
	}
}

func TestKubernetesPodServesAndReloads(t *testing.T) {
	t.Parallel()
	k := readKubernetes(t)
	server := storetest.StartRedis(t)
	config, dir := t.TempDir(), t.TempDir()
	k.mount(t, config, "..1", func(s string) string { return s })
	env := k.env(t)
	env["PRECEPT_STORE_URL"] = "redis://" + server.Addr + "/0"
	p := harness.Launch(t, dir, envList(env), k.args(t, config)[1:]...).WaitUntilReady(dir)
	for _, probe := range []kubeProbe{k.container().StartupProbe, k.container().LivenessProbe, k.container().ReadinessProbe} {
		base := map[string]string{"data": p.DataURL, "admin": p.AdminURL}[probe.HTTPGet.Port]
		if code := statusForHost(t, base+probe.HTTPGet.Path, "10.0.0.7:8080", ""); code != 200 {
			t.Errorf("probe %+v: got status %d, want 200", probe, code)
		}
	}
	if code := statusForHost(t, p.AdminURL+"/metrics", "precept-admin", kubeToken); code != 200 {
		t.Errorf("/metrics with Host precept-admin: got status %d, want 200", code)
	}
	k.mount(t, config, "..2", func(s string) string { return strings.Replace(s, "epsilon: 0.2", "epsilon: 0.3", 1) })
	p.Eventually("the reload of the second ConfigMap", func() bool { return strings.Contains(p.Log.String(), `"msg":"configuration reloaded"`) })
}

// The manifests contain no Secret, because the user creates the Secret.
func TestKustomizeBuildsManifests(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not installed")
	}
	out, err := exec.CommandContext(t.Context(), "kubectl", "kustomize", filepath.Join(repo, "deploy", "kubernetes")).CombinedOutput()
	if err != nil || strings.Count(string(out), "\nkind: ") != 6 || strings.Contains(string(out), "kind: Secret") {
		t.Errorf("kubectl kustomize: got error %v, output %s, want 6 objects and no Secret", err, out)
	}
}
