// Answers questions about a model by llama.cpp; record.py asks and keeps the
// answers. Each line of the input is one question, each of the output one
// answer in JSON:
//
//   tokens HEX         the ids of a text (UTF-8, in hex) without and with
//                      control tokens recognised
//   greedy N ID...     of each position of these ids the five best logits and
//                      the logsumexp of all, then up to N greedy ids, each with
//                      its margin over the second best
//   loss ID...         the negative log-likelihood of each id after the first
//
// Usage: record MODEL f16|f32 (the type of the KV cache).

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "llama.h"

using ids_t = std::vector<llama_token>;

static llama_model *model;
static llama_context *ctx;
static int vocab_size;

// feed computes ids from position start on and calls each(i, logits) for each.
template <class F> static void feed(const ids_t &ids, int start, F each) {
    const int chunk = 64;
    for (size_t from = 0; from < ids.size(); from += chunk) {
        int n = std::min<size_t>(chunk, ids.size() - from);
        llama_batch batch = llama_batch_init(n, 0, 1);
        batch.n_tokens = n;
        for (int i = 0; i < n; i++) {
            batch.token[i] = ids[from + i];
            batch.pos[i] = start + from + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = 1;
        }
        if (llama_decode(ctx, batch) != 0) {
            fprintf(stderr, "record: llama_decode failed\n");
            exit(1);
        }
        for (int i = 0; i < n; i++) each(from + i, llama_get_logits_ith(ctx, i));
        llama_batch_free(batch);
    }
}

static double logsumexp(const float *logits) {
    double highest = *std::max_element(logits, logits + vocab_size), sum = 0;
    for (int i = 0; i < vocab_size; i++) sum += std::exp(logits[i] - highest);
    return highest + std::log(sum);
}

static ids_t best(const float *logits, int n) {
    ids_t order(vocab_size);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
    order.resize(n);
    return order;
}

static std::string number(double x) {
    char text[32];
    snprintf(text, sizeof text, "%.5f", x);
    return text;
}

template <class T, class F> static std::string list(const std::vector<T> &v, F text) {
    std::string out = "[";
    for (size_t i = 0; i < v.size(); i++) out += (i ? "," : "") + text(v[i]);
    return out + "]";
}

static std::string list(const ids_t &ids) {
    return list(ids, [](llama_token id) { return std::to_string(id); });
}

static ids_t tokenize(const std::string &text, bool special) {
    ids_t ids(text.size() + 8);
    ids.resize(llama_tokenize(llama_model_get_vocab(model), text.data(), text.size(), ids.data(), ids.size(), false, special));
    return ids;
}

static std::string tokens(std::istringstream &in) {
    std::string hex, text;
    in >> hex;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) text += (char)std::stoi(hex.substr(i, 2), nullptr, 16);
    return "{\"ids\":" + list(tokenize(text, true)) + ",\"ids_no_special\":" + list(tokenize(text, false)) + "}";
}

static std::string greedy(std::istringstream &in) {
    int most;
    in >> most;
    ids_t ids, more;
    for (llama_token id; in >> id;) ids.push_back(id);
    std::vector<std::string> top;
    std::vector<double> margins;
    ids_t next;
    feed(ids, 0, [&](int, const float *logits) {
        next = best(logits, 5);
        top.push_back("{\"ids\":" + list(next) + ",\"logits\":" + list(next, [&](llama_token id) { return number(logits[id]); }) +
                      ",\"logsumexp\":" + number(logsumexp(logits)) + "}");
        next.resize(2);
        margins.assign(1, logits[next[0]] - logits[next[1]]);
    });
    for (int at = ids.size(); (int)more.size() < most; at++) {
        more.push_back(next[0]);
        if (llama_vocab_is_eog(llama_model_get_vocab(model), next[0]) || (int)more.size() == most) break;
        feed({next[0]}, at, [&](int, const float *logits) {
            next = best(logits, 2);
            margins.push_back(logits[next[0]] - logits[next[1]]);
        });
    }
    return "{\"ids\":" + list(ids) + ",\"top5\":" + list(top, [](const std::string &s) { return s; }) +
           ",\"greedy_ids\":" + list(more) + ",\"greedy_margin\":" + list(margins, number) + "}";
}

static std::string loss(std::istringstream &in) {
    ids_t ids;
    for (llama_token id; in >> id;) ids.push_back(id);
    std::vector<double> losses;
    feed(ids, 0, [&](int i, const float *logits) {
        if (i + 1 < (int)ids.size()) losses.push_back(logsumexp(logits) - logits[ids[i + 1]]);
    });
    return "{\"loss\":" + list(losses, number) + "}";
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: record MODEL f16|f32\n");
        return 2;
    }
    llama_log_set([](ggml_log_level level, const char *text, void *) { if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr); }, nullptr);
    model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) return 1;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 2048;
    params.n_batch = params.n_ubatch = 64;
    params.n_threads = params.n_threads_batch = 2;
    params.type_k = params.type_v = std::string(argv[2]) == "f32" ? GGML_TYPE_F32 : GGML_TYPE_F16;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    ctx = llama_init_from_model(model, params);
    if (!ctx) return 1;
    vocab_size = llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (std::string line, word; std::getline(std::cin, line);) {
        std::istringstream in(line);
        in >> word;
        llama_memory_clear(llama_get_memory(ctx), true);
        puts((word == "tokens" ? tokens(in) : word == "greedy" ? greedy(in) : loss(in)).c_str());
        fflush(stdout);
    }
}
