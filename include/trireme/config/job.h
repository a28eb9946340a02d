// A job: one plain struct per section, with default, unit and range beside the field. `load_job` is
// the only reader. nullopt stands for `auto`: Trireme chooses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/io/node.h"

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trireme::config {

/// `model: {kind: gpt}`. Layers: embedding, then per block an attention and an MLP half-block, then
/// norm + head + loss.
struct GptSpec {
  int blocks = 6;   ///< 1..10'000
  int width = 384;  ///< a multiple of heads
  int heads = 6;
  int context = 256;  ///< tokens per sequence
  int vocabulary = 256;
  double dropout = 0.0;   ///< 0..0.9, on the embedding and on both residual branches
  bool tied_head = true;  ///< the head's weight is the token embedding's
};

/// `model: {kind: mlp}`: for every entry of `widths` one layer (linear, optional batch norm, GELU,
/// dropout); the last layer is linear to `classes` + cross-entropy. Input: float vectors of
/// `inputs` values.
struct MlpSpec {
  int inputs = 64;
  std::vector<int> widths = {256, 256};
  int classes = 10;
  bool batch_norm = false;
  double dropout = 0.0;
};

/// A kind that the program's own author registered; read by that author's factory.
struct OwnModelSpec {
  std::string kind;
  io::Node node;  ///< the whole `model` section
};

using ModelSpec = std::variant<GptSpec, MlpSpec, OwnModelSpec>;

/// `data`. Keys of some kinds only: files of text and tokens, token_bytes of tokens, examples of
/// synthetic. An mlp takes synthetic data, a gpt any.
struct DataSpec {
  std::string kind = "text";  ///< text | tokens | synthetic (the default for an mlp)
  /// Patterns; text: bytes are tokens; tokens: little-endian uint16 or uint32.
  std::vector<std::string> files;
  double validation_fraction = 0.05;  ///< 0..0.5, the end of the data; 0: no validation
  int token_bytes = 2;                ///< tokens: 2 | 4
  std::int64_t examples = 4096;       ///< synthetic: size of the made-up data set
};

struct OptimizerSpec {
  std::string kind = "adamw";  ///< adamw | sgd
  double learning_rate = 6e-4;
  double weight_decay = 0.1;         ///< on parameters of two or more dimensions
  double beta1 = 0.9, beta2 = 0.95;  ///< adamw; in a job: betas: [0.9, 0.95]
  double epsilon = 1e-8;             ///< adamw
  double momentum = 0.9;             ///< sgd
};

struct ScheduleSpec {
  std::string kind = "cosine";  ///< cosine | constant; both after a linear warm-up
  int warmup_steps = 0;
  double least_fraction = 0.1;  ///< cosine ends at this fraction of the learning rate
};

struct TrainSpec {
  int steps = 300;
  int batch = 32;       ///< sequences or examples per step, over all replicas
  int micro_batch = 4;  ///< divides batch / replicas
  std::int64_t seed = 1;
  std::string precision = "float32";  ///< float32 | bfloat16 (autocast)
  double clip_norm = 1.0;             ///< 0: no clipping
  int validate_every = 100;           ///< steps; 0: at the end only
  int validation_batches = 8;         ///< micro-batches per replica and validation
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
};

struct PipelineSpec {
  std::optional<int> stages;  ///< auto: ranks / replicas (1 without mpirun)
  int replicas = 1;
  std::string schedule = "1f1b";        ///< 1f1b | gpipe
  std::optional<std::vector<int>> cut;  ///< last layer of every stage but the last
  Seconds timeout{60};                  ///< of every wait for another rank
  std::string transport = "auto";       ///< auto | local | mpi
};

/// Bytes, or a share of what the device has ("80%" is 0.8).
struct MemorySize {
  Bytes bytes;
  double share = 0;  ///< > 0: this share instead of `bytes`
};

struct MemorySpec {
  /// Empty: auto (no limit); one for all ranks, or one per rank.
  std::vector<MemorySize> device_budget;
  MemorySize host_budget, disk_budget;
  std::string disk_path;
};

struct PlanSpec {
  std::string solver = "auto";  ///< auto, or a solver's name (design, section 6)
  int slots = 500;              ///< 10..100'000
  std::string file;             ///< a plan to use instead of making one
};

struct CheckpointSpec {
  int every = 0;
  int keep = 2;
  std::string resume = "auto";  ///< auto | never | must
};

struct ReportSpec {
  std::string directory;  ///< default runs/<name of the job file>
  int log_every = 10;     ///< steps
  bool tensorboard = true;
  bool html = true;
};

struct JobSpec {
  std::string name;  ///< default: the job file's name without its ending
  ModelSpec model = GptSpec{};
  DataSpec data;
  TrainSpec train;
  std::string device = "cpu";  ///< cpu | cuda
  std::optional<int> threads;  ///< per rank; auto: this host's cores / ranks on this host
  PipelineSpec pipeline;
  MemorySpec memory;
  PlanSpec plan;
  CheckpointSpec checkpoint;
  ReportSpec report;
  io::Node document;  ///< as read, settings applied: says file and line in later errors

  explicit JobSpec(io::Node read) : document(std::move(read)) {}

  /// Throws InputError that points to `key` ("pipeline.micro_batch") in the job's file if it stands
  /// there.
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;
};

/// What the program that reads a job knows beside the built-in kinds.
struct LoadOptions {
  std::vector<std::string> settings;    ///< "section.key=value", applied in order
  std::vector<std::string> own_models;  ///< kinds that are read into OwnModelSpec
};

/// Reads and checks a job. Throws InputError: unknown key, wrong type or unit, out of range, keys
/// that contradict each other
/// ("batch is 30, must be a multiple of micro_batch x replicas = 8").
JobSpec load_job(const std::filesystem::path& file, const LoadOptions& options);
JobSpec read_job(const io::Node& document, const LoadOptions& options);

/// The job with every default written out; reading it gives the same job.
std::string to_yaml(const JobSpec& job);

/// Micro-batches per step and replica: batch / (micro_batch x replicas).
int micro_batches(const JobSpec& job);

}  // namespace trireme::config
