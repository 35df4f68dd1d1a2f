package hub

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/hub/hubtest"
)

// pythonWithHub finds a Python that has huggingface_hub, or skips.
func pythonWithHub(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("WASMETER_HUB_PYTHON"), "python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if exec.Command(path, "-c", "import huggingface_hub").Run() == nil {
			return path
		}
	}
	t.Skip("needs huggingface_hub: python3 -m pip install huggingface_hub, or name a Python that has it in WASMETER_HUB_PYTHON")
	return ""
}

// python runs a script against a hub and a cache, and gives what it prints.
func python(t *testing.T, h *hubtest.Hub, cache, script string) string {
	t.Helper()
	c := exec.Command(pythonWithHub(t), "-c", "from huggingface_hub import hf_hub_download, snapshot_download, scan_cache_dir\n"+script)
	c.Env = append(os.Environ(), h.Endpoint(), "HF_HUB_CACHE="+cache, "HF_HOME="+filepath.Dir(cache), "HF_TOKEN="+token,
		"HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1", "HF_HUB_DISABLE_XET=1")
	out, err := c.Output()
	if err != nil {
		stderr := ""
		if e, ok := err.(*exec.ExitError); ok {
			stderr = string(e.Stderr)
		}
		t.Fatalf("%s: %v\n%s", script, err, stderr)
	}
	return strings.TrimSpace(string(out))
}

// resolved lists the requests for files' contents after the first n.
func resolved(h *hubtest.Hub, n int) []string {
	var out []string
	for _, r := range h.Requests()[n:] {
		if r.Method == "GET" && strings.Contains(r.Path, "/resolve/") {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

// What this package has fetched, huggingface_hub finds.
func TestHuggingFaceFindsOurs(t *testing.T) {
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": ggufRepo(), "org/folder": folderRepo()})
	c := newClient(t, h)
	pythonWithHub(t)
	gguf, folder := pull(t, c, "org/repo:Q8_0"), pull(t, c, "org/folder")
	before := len(h.Requests())

	got := python(t, h, c.options.Cache, `
print(hf_hub_download("org/repo", "sub/model-Q8_0.gguf", local_files_only=True))
print(snapshot_download("org/folder", local_files_only=True))`)
	if want := gguf.Path + "\n" + folder.Path; got != want {
		t.Errorf("offline it finds\n%s\nwant\n%s", got, want)
	}
	if n := len(h.Requests()) - before; n != 0 {
		t.Errorf("offline it made %d requests", n)
	}
	got = python(t, h, c.options.Cache, `
print(hf_hub_download("org/repo", "sub/model-Q8_0.gguf"))
print(snapshot_download("org/folder", allow_patterns=["*.json", "*.safetensors"]))
info = scan_cache_dir()
print(sorted(r.repo_id for r in info.repos), len(info.warnings))`)
	if want := gguf.Path + "\n" + folder.Path + "\n['org/folder', 'org/repo'] 0"; got != want {
		t.Errorf("online it finds\n%s\nwant\n%s", got, want)
	}
	if again := resolved(h, before); len(again) != 0 {
		t.Errorf("it fetched again: %q", again)
	}
}

// What huggingface_hub has fetched, this package finds.
func TestWeFindHuggingFaces(t *testing.T) {
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": ggufRepo(), "org/folder": folderRepo()})
	c := newClient(t, h)
	got := python(t, h, c.options.Cache, `
print(hf_hub_download("org/repo", "model-Q4_K_M.gguf"))
print(snapshot_download("org/folder"))`)
	theirs := strings.Split(got, "\n")
	before := len(h.Requests())
	for i, name := range []string{"org/repo", "org/folder"} {
		p := pull(t, c, name)
		if p.Path != theirs[i] || p.Fetched != 0 {
			t.Errorf("%s: got %+v, want %s and nothing fetched", name, p, theirs[i])
		}
	}
	if again := resolved(h, before); len(again) != 0 {
		t.Errorf("fetched again: %q", again)
	}
	c.options.Offline = true
	if p := pull(t, c, "org/repo"); p.Path != theirs[0] {
		t.Errorf("offline: got %s, want %s", p.Path, theirs[0])
	}
	// The two layouts are one: what huggingface_hub makes of a file, we do.
	ours := newClient(t, h)
	pull(t, ours, "org/repo")
	theirFiles, ourFiles := layout(t, c.options.Cache), layout(t, ours.options.Cache)
	for _, line := range ourFiles {
		if !slices.Contains(theirFiles, line) {
			t.Errorf("huggingface_hub makes no %s, but\n%s", line, strings.Join(theirFiles, "\n"))
		}
	}
}

// A file that huggingface_hub fetches at this moment is waited for.
func TestLockIsHuggingFaces(t *testing.T) {
	repo := ggufRepo()
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": repo})
	c := newClient(t, h)
	pythonWithHub(t)
	sum := hubtest.SHA256(repo.Files["model-Q4_K_M.gguf"])
	held, err := c.acquire(t.Context(), c.options.repo("org/repo").lock(sum), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer held()
	got := python(t, h, c.options.Cache, `
import pathlib, os
from huggingface_hub.utils import WeakFileLock
from filelock import Timeout
lock = next(pathlib.Path(os.environ["HF_HUB_CACHE"]).glob(".locks/models--org--repo/*.lock"))
try:
    with WeakFileLock(lock, timeout=0.2):
        print("free")
except Timeout:
    print("held", lock.stem)`)
	if got != "held "+sum {
		t.Errorf("huggingface_hub says of our lock: %s, want held", got)
	}
}
