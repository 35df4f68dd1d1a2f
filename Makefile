# Tools that are fetched at these versions. Go itself is named in go.mod.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

PYTHON  ?= python3
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
MODEL   := models/SmolLM2-135M-Instruct.Q4_1.gguf
BUILD   := CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)"

# Packages in which goroutines share something.
CONCURRENT := ./engine ./engine/backend/... ./host ./host/ledger ./host/metrics ./host/plugin ./cmd/...

.PHONY: help run test model model-gemma model-qwen build plugins toolchains check bench load clients race clean fmt vet cross staticcheck generated tidy forbidden cuda-build cuda-headers cuda-kernels cuda-test

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: model build ## fetch the model, build, and serve it on 127.0.0.1:8000
	@bin/wasmeter serve $(MODEL) --enable-per-request-metrics

model: ## fetch the model into models/ (93 MB, once)
	@$(PYTHON) models/fetch.py

model-gemma: ## fetch Gemma 3 270M into models/ (241 MB, once)
	@$(PYTHON) models/fetch.py gemma

model-qwen: ## fetch Qwen2.5-Coder 0.5B into models/ (469 MB, once)
	@$(PYTHON) models/fetch.py qwen

build: ## build bin/wasmeter
	@mkdir -p bin
	@$(BUILD) -o bin/wasmeter ./cmd/wasmeter
	@echo "build: bin/wasmeter $(VERSION)"

test: ## run all tests
	@$(PYTHON) models/fetch.py || echo "test: going on without the model; the tests that need it say so"
	go vet ./...
	go test ./...

# The race detector allocates, so what counts allocations is left out.
race: ## run the concurrent packages under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -short -count=1 -skip 'Alloc' $(CONCURRENT)

bench: model ## measure tokens per second, kernels and plugins
	go test -run '^$$' -bench . -benchtime 1s ./engine/... ./kernels/... ./host/...

load: ## measure cost, memory, leaving clients and hostile plugins on the simulated device (minutes)
	WASMETER_LOAD=1 go test -count=1 -v -timeout 20m -run 'TestCostOfMetrics|TestManyStreams|TestHangingUp|TestGapsBesideHostiles' ./cmd/wasmeter

clients: model ## run the official clients' examples (installs the clients once)
	WASMETER_CLIENT_TESTS=1 go test -count=1 -v ./examples/clients

plugins: ## build plugins/*/*.wasm from their sources
	@plugins/build.sh

toolchains: ## install the compilers of plugins in Zig, C, AssemblyScript and Rust (once)
	@sdk/toolchains.sh

cuda-build: cuda-headers ## build bin/wasmeter with CUDA in it (needs a C compiler)
	@mkdir -p bin
	@CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$(CURDIR)/kernels/cuda/include" go build -trimpath -tags cuda -ldflags "-X main.version=$(VERSION)" -o bin/wasmeter ./cmd/wasmeter
	@echo "build: bin/wasmeter $(VERSION) with CUDA"

cuda-headers: ## fetch cuda.h, which building with -tags cuda needs (once)
	@$(PYTHON) kernels/cuda/headers.py

cuda-kernels: ## build kernels/cuda/kernels.fatbin from its sources (fetches nvcc once, 300 MB)
	@PYTHON=$(PYTHON) kernels/cuda/build.sh

cuda-test: ## test what is behind the tag cuda on an emulated driver, and the kernels' image
	@PYTHON=$(PYTHON) kernels/cuda/test.sh

fmt: ## format the sources
	@gofmt -l -w $$(git ls-files '*.go')

vet: ## vet for amd64, arm64 and without assembly
	GOARCH=amd64 go vet ./...
	GOARCH=arm64 go vet ./...
	go vet -tags noasm ./...

cross: ## compile for the other platforms
	@for target in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do \
		echo "cross: $$target"; \
		GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 go build -o /dev/null ./cmd/wasmeter || exit 1; \
	done

check: ## format, vet, lint, generated files, and a tree that this leaves as it was
	@before=$$(git status --porcelain); \
	unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "check: run make fmt for" $$unformatted; exit 1; fi; \
	$(MAKE) --no-print-directory vet staticcheck generated tidy forbidden || exit 1; \
	after=$$(git status --porcelain); \
	if [ "$$before" != "$$after" ]; then echo "check: the tree has changed:"; git status --short; exit 1; fi; \
	echo "check: good"

# A machine without the module proxy has no staticcheck: that is said, and no
# fault. Half of the SDK is used by guests only, so it is looked at as a guest;
# what a guest exports is called by the host, which looks like being unused.
staticcheck:
	@mkdir -p bin
	@if GOBIN=$(CURDIR)/bin go install $(STATICCHECK); then \
		bin/staticcheck $$(go list ./... | grep -v /sdk/go) && GOOS=wasip1 GOARCH=wasm bin/staticcheck -checks inherit,-U1000 -tests=false ./sdk/go; \
	else echo "check: staticcheck cannot be fetched; left out"; fi

# Assembly and guests are committed. Both are made again and compared.
generated:
	go test -count=1 -run '^TestGenerated$$' ./kernels/cpu
	@plugins/build.sh --check

tidy:
	go mod verify
	go mod tidy -diff

# No build output, model or large file is committed.
forbidden:
	@found=$$(git ls-files | grep -E '\.(gguf|safetensors|test|prof|exe|so|o|pyc)$$|^bin/|(^|/)\.env$$' | grep -v /testdata/); \
	if [ -n "$$found" ]; then echo "check: not to be committed:" $$found; exit 1; fi
	@git ls-files -z | xargs -0 du -k | awk '$$1 > 4096 { print "check: larger than 4 MiB: " $$2; bad = 1 } END { exit bad }'

clean: ## remove what was built; the model stays
	@rm -rf bin
