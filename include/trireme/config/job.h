// A job: one plain struct per section, with each field's default, unit and range. `load_job` is the
// only reader. nullopt stands for `auto`: Trireme chooses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/platform.h"
#include "trireme/core/units.h"
#include "trireme/io/node.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trireme::config {

/// `model: {kind: gpt}`: embedding, blocks of attention and MLP, norm + head + loss (Radford et al.
/// 2019).
///
/// `grain` says how the blocks of a transformer are cut into layers. block: one layer each.
/// half_block: attention and MLP. fine: norm + qkv, attention core, projection, norm + up,
/// activation + down, each passing the residual on; with it the planner finds selective
/// recomputation (Megatron-LM) by itself. Losses and gradients are the same to the bit for every
/// grain where dropout is 0 (its masks are drawn per layer; initial values are drawn per
/// parameter).
struct GptSpec {
  int blocks = 6;   ///< 1..10'000
  int width = 384;  ///< a multiple of heads
  int heads = 6;
  int context = 256;  ///< tokens per sequence
  /// Rows of the position embedding; a sequence uses the first ones. auto: context.
  std::optional<int> positions;
  int vocabulary = 256;
  double dropout = 0.0;              ///< 0..0.9, on the embedding and on both residual branches
  bool tied_head = true;             ///< the head's weight is the token embedding's
  double norm_epsilon = 1e-5;        ///< 1e-12..1, of the layer norms
  std::string grain = "half_block";  ///< block | half_block | fine
  /// Chunks of tokens for which the head computes loss and gradients one after the other, so that
  /// all logits never exist at once; 1: all at once, with LibTorch's own operators.
  int loss_chunks = 1;  ///< 1..1024
  /// Rank of LoRA adapters of linear weights of the blocks (Hu et al. 2021): a product gains
  /// lora_alpha / lora_rank x A^T B^T. 0: no adapters.
  int lora_rank = 0;
  double lora_alpha = 16;
  std::vector<std::string> lora_targets;  ///< qkv, projection, up, down; empty: all
  /// Patterns for the parameters that are trained, by their places in the chain
  /// ("block3.mlp.up.weight"); empty: only the adapters if there are any, else all.
  std::vector<std::string> trained;

  int table_rows() const { return positions.value_or(context); }
};

/// `model: {kind: llama}`: a decoder whose parts can be chosen. With their defaults it is a llama:
/// RMS norms, rotary positions, grouped-query attention, SwiGLU, no biases (Touvron et al. 2023);
/// docs/models.md says which parts other families of transformers take.
struct LlamaSpec {
  int blocks = 6;  ///< 1..10'000
  int width = 384;
  int heads = 6;
  std::optional<int> kv_heads;    ///< divides heads; auto: heads
  std::optional<int> head_width;  ///< auto: width / heads, which is then a whole number
  std::optional<int> hidden;      ///< of the MLP; auto: 8/3 width, rounded up to a multiple of 32
  int context = 256;
  int vocabulary = 256;
  bool tied_head = false;
  bool qkv_bias = false, projection_bias = false, mlp_bias = false;
  /// Queries, keys and values are one linear layer, `qkv`; gate and up another, `gate_up`.
  bool fused_linears = false;
  /// f in down(f(gate) x up): silu | gelu | gelu_tanh (Shazeer 2020).
  std::string activation = "silu";
  /// Where the attention and the MLP have RMS norms. before: of their input. after: of their
  /// result, before it is added to the residual. both.
  std::string norms = "before";
  /// RMS norms of queries and keys. none. head: of each head, with one weight for all of them. all:
  /// of all heads together.
  std::string qk_norm = "none";
  bool zero_centered_norms = false;       ///< all RMS norms multiply by 1 + weight
  double norm_epsilon = 1e-5;             ///< 1e-12..1, of the RMS norms
  double embedding_scale = 1;             ///< embeddings are multiplied by this
  double residual_scale = 1;              ///< what is added to the residual is multiplied by this
  double logits_divisor = 1;              ///< logits are divided by this
  std::optional<double> attention_scale;  ///< of queries times keys; auto: 1 / sqrt(head width)
  /// Soft caps of attention scores, after their scale, and of logits, after their divisor: y
  /// becomes cap x tanh(y / cap). 0: none.
  double attention_cap = 0, logits_cap = 0;
  /// Sliding window: how many tokens a token sees, itself included. auto: all before it.
  std::optional<int> window;
  std::vector<int> window_blocks;  ///< blocks with the window, from 0; empty: all
  double rope_base = 10'000;
  double rope_fraction = 1;  ///< 0..1, share of a head's values, the first ones, that are rotated
  std::vector<int> unrotated_blocks;  ///< blocks without rotary positions, from 0
  /// Base of rotary positions, unscaled, of the blocks with a window. auto: as in all others.
  std::optional<double> window_rope_base;
  /// Scaling of rotary positions beyond the context of the first training. none. linear: all
  /// positions are divided by `rope_factor` (Chen et al. 2023). llama3: only of pairs that turn
  /// less than `rope_low_turns` times over `rope_original_context`; unchanged where they turn more
  /// than `rope_high_turns` times, interpolated in between by turns (Grattafiori et al. 2024).
  /// yarn: the same, but interpolated by the pair's number, and the rotated values are multiplied
  /// by `rope_attention_factor` (Peng et al. 2023).
  std::string rope_scaling = "none";
  double rope_factor = 8;  ///< 1..10'000
  double rope_low_turns = 1, rope_high_turns = 4;
  int rope_original_context = 8192;
  double rope_attention_factor = 1;
  std::string grain = "half_block";
  int loss_chunks = 1;  ///< as in a gpt
  /// Adapters and what is trained, as in a gpt.
  int lora_rank = 0;
  double lora_alpha = 16;
  /// q, k, v, projection, gate, up, down (with fused linears: qkv, projection, gate_up, down);
  /// empty: all
  std::vector<std::string> lora_targets;
  std::vector<std::string> trained;

  bool operator==(const LlamaSpec&) const = default;

  int key_value_heads() const { return kv_heads.value_or(heads); }
  int head_size() const { return head_width.value_or(width / heads); }
  std::int64_t hidden_width() const {
    return hidden ? *hidden : (8 * std::int64_t{width} / 3 + 31) / 32 * 32;
  }
  /// Values of a head that are rotated.
  int rotated_values() const { return static_cast<int>(head_size() * rope_fraction); }
  double score_scale() const {
    return attention_scale.value_or(1 / std::sqrt(static_cast<double>(head_size())));
  }
  /// The window of a block; nothing: all before a token.
  std::optional<int> window_of(int block) const {
    const bool has_one =
        window_blocks.empty() ||
        std::find(window_blocks.begin(), window_blocks.end(), block) != window_blocks.end();
    return has_one ? window : std::nullopt;
  }
  bool is_rotated(int block) const {
    return std::find(unrotated_blocks.begin(), unrotated_blocks.end(), block) ==
           unrotated_blocks.end();
  }
};

/// `model: {kind: vit}`: patch embedding with a class token, blocks as in a gpt but without a mask,
/// norm + head + loss (Dosovitskiy et al. 2021). Images are square.
struct VitSpec {
  int image_size = 32;  ///< pixels, a multiple of patch
  int patch = 4;
  int blocks = 6;
  int width = 192;  ///< a multiple of heads
  int heads = 3;
  int classes = 10;
  int channels = 3;
  double dropout = 0.0;  ///< on the embedding and on both residual branches
  std::string grain = "half_block";
};

/// `model: {kind: resnet}`: stem, a layer per residual block, pooling + head + loss (He et al.
/// 2016; in bottlenecks the 3x3 convolution has the stride). With grain operator it is a graph
/// whose nodes are convolutions, norms, ReLUs and sums.
struct ResnetSpec {
  int depth = 18;  ///< 18 | 34 | 50 | 101 | 152
  int image_size = 32;
  int channels = 3;
  int classes = 10;
  int width = 64;            ///< channels of the first group of blocks; the paper's 64 x multiplier
  std::string stem = "3x3";  ///< 3x3: for small images | 7x7: stride 2 and a max pool, the paper's
  std::string grain = "block";  ///< block | operator
};

/// `model: {kind: vgg}`: a layer per convolution + ReLU, with the max pool that follows it, and
/// three of classification (Simonyan and Zisserman 2015).
struct VggSpec {
  int depth = 16;       ///< 11 | 13 | 16 | 19
  int image_size = 32;  ///< at least 32: five pools halve it
  int channels = 3;
  int classes = 10;
  int width = 64;  ///< channels of the first convolution; the classifiers have 64 x as many values
  bool batch_norm = true;
  double dropout = 0.5;  ///< between the classification layers
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

/// `model: {kind: torchscript}`: layers that were written in Python, each saved by torch.jit as a
/// file. A layer takes the output of the one before it, the last one also the target; it returns a
/// tensor or a tuple, the last one the loss.
struct TorchScriptSpec {
  std::vector<std::string> files;  ///< patterns; layers in the order of their names
  std::string takes = "tokens";    ///< tokens | vectors | images
  int context = 256;               ///< tokens
  int inputs = 64;                 ///< vectors: values of one
  int image_size = 32;             ///< images: pixels of a side
  int channels = 3;                ///< images
  int classes = 256;               ///< in a job of tokens: vocabulary
  /// Tied weights: for each, its places "LAYER/PARAMETER" in the order of the layers.
  std::vector<std::vector<std::string>> tied;
  /// Tokens: the loss is the mean over the targets that are not -100 (ignore_index of
  /// cross_entropy).
  bool masked_targets = false;
};

/// A model kind that user code registered; read by that code's factory.
struct OwnModelSpec {
  std::string kind;
  io::Node node;  ///< the whole `model` section
};

using ModelSpec = std::variant<GptSpec, LlamaSpec, VitSpec, ResnetSpec, VggSpec, MlpSpec,
                               TorchScriptSpec, OwnModelSpec>;

/// `model.kind`.
std::string kind_of(const ModelSpec& model);

/// `data`. Keys of some kinds only: files (all but synthetic and own), token_bytes (tokens), packed
/// and isolated (documents), examples (synthetic). A gpt or llama takes text, tokens, documents or
/// synthetic; a vit, resnet or vgg images or synthetic; an mlp synthetic.
struct DataSpec {
  /// text | tokens | documents | images | synthetic (the default for models that take no tokens) |
  /// own: the calling program hands them over
  std::string kind = "text";
  /// Patterns; text: bytes are tokens; tokens: little-endian uint16 or uint32; documents: texts
  /// that say which of their tokens are learned (SFT); images: PNM, PNG or JPEG, whose folder names
  /// their class, or packed files.
  std::vector<std::string> files;
  double validation_fraction = 0.05;  ///< 0..0.5 of the data; 0: no validation
  int token_bytes = 2;                ///< tokens: 2 | 4
  bool packed = false;                ///< documents: several packed into one row
  /// documents: none sees another or its row's padding, and the positions of each begin at 0; auto:
  /// where they are packed.
  std::optional<bool> isolated;
  std::int64_t examples = 4096;  ///< synthetic: size of the generated data set

  bool isolates_documents() const { return kind == "documents" && isolated.value_or(packed); }
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
  int batch = 32;  ///< sequences or examples per step, over all replicas
  /// Divides batch / replicas; auto: what makes a step fastest within the budgets.
  std::optional<int> micro_batch = 4;
  std::int64_t seed = 1;
  std::string precision = "float32";  ///< float32 | bfloat16 (autocast) | bfloat16_weights
  /// On cuda, only kernels that add in a fixed order, and an error where there is none: the same
  /// run gives the same bits again. CPU kernels do so anyway.
  bool deterministic = false;
  double clip_norm = 1.0;      ///< 0: no clipping
  int validate_every = 100;    ///< steps; 0: at the end only
  int validation_batches = 8;  ///< micro-batches per replica and validation
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
};

struct PipelineSpec {
  std::optional<int> stages;        ///< auto: ranks / replicas (1 without mpirun)
  std::optional<int> replicas = 1;  ///< auto: with the stages, what makes a step fastest
  /// Order of passes, and chunks on every rank: auto (the fastest that fits) | 1f1b | gpipe | zb-h1
  /// | interleaved | looped-bfs | zb-v | v-half | v-min | dualpipe-v (schedule::named_schedules()).
  std::string schedule = "auto";
  /// Breadth-first micro-batches: this many run through a layer before any goes on to the next, so
  /// that weights in the offload tier are copied once for all. auto: the fastest.
  std::optional<int> group;
  std::optional<std::vector<int>> cut;  ///< last layer of every stage but the last
  /// auto | never: split backward, zero bubble (schedule::one_f_one_b_with). auto: with several
  /// stages, where that is faster.
  std::string split_backward = "auto";
  /// Relative speed of each rank. auto: ranks on machines that are alike are equally fast, others
  /// are measured.
  std::optional<std::vector<double>> speeds;
  Seconds timeout{60};  ///< of every wait for another rank
  /// auto | local (threads) | mpi | nccl (cuda: device memory over NCCL only; all else as with
  /// auto)
  std::string transport = "auto";
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
  /// auto | full | lean: tapes without values that are cheap to recompute. auto: the faster.
  std::string tapes = "auto";
  /// auto | device | offload: where optimizer state is between updates. auto: on the device as far
  /// as that makes a step faster.
  std::string optimizer = "auto";
  /// Sharded optimizer (ZeRO-1): replicas divide optimizer state and its updates among themselves.
  bool shard_optimizer = true;
  /// auto | device | offload (parameter offload): where weights that can be streamed
  /// (chain::LayerCost::may_leave), with their gradients, are while their layer is not used. auto:
  /// as above.
  std::string weights = "auto";
  /// auto | at_end | in_forward | in_backward: when streamed layers with trained weights are
  /// updated (program::UpdatePlace). auto: the fastest.
  std::string updates = "auto";
};

struct PlanSpec {
  std::string solver = "auto";     ///< auto, or a solver's name
  int slots = 500;                 ///< 10..20'000
  std::string file;                ///< a plan to use instead of making one
  std::string objective = "time";  ///< time | energy
  /// Longest step: a time, a factor of the fastest step ("1.05x"), or none;
  /// partition::deadline_of() reads it.
  std::string deadline = "none";
};

/// What energy costs on each rank where it is not measured; as a platform file says it of a
/// rank.
struct EnergySpec {
  chain::Power power;
  std::vector<chain::Clock> clocks;
  /// cuda: whether each rank's GPU is locked, while it trains, at the fastest clock that the plan
  /// names for it.
  bool set_clocks = false;
};

struct CheckpointSpec {
  int every = 0;                ///< steps between two, and one at the end; 0: none
  int keep = 2;                 ///< newest ones that stay, >= 1
  std::string resume = "auto";  ///< auto | never | must: docs/checkpoints.md
  bool background = false;      ///< written during steps, from a copy in host memory
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
  /// `model.weights`: a folder or a safetensors file with initial values of the parameters; empty:
  /// they are random. A folder's `config.json` gives `model` its defaults.
  std::string weights;
  /// `model.adapters`: a folder with initial values of the adapters of these weights; empty: they
  /// begin as ones that change nothing.
  std::string adapters;
  DataSpec data;
  TrainSpec train;
  std::string device = "cpu";  ///< cpu | cuda
  std::optional<int> threads;  ///< per rank; auto: this host's cores / ranks on this host
  PipelineSpec pipeline;
  MemorySpec memory;
  PlanSpec plan;
  EnergySpec energy;
  CheckpointSpec checkpoint;
  ReportSpec report;
  io::Node document;  ///< as read, settings applied: says file and line in later errors

  explicit JobSpec(io::Node read) : document(std::move(read)) {}

  /// Throws InputError that points to `key` ("pipeline.micro_batch") in the job's file if it is
  /// there.
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;
};

/// What the calling program adds to a job: settings, and model kinds of its own.
struct LoadOptions {
  std::vector<std::string> settings;    ///< "section.key=value", applied in order
  std::vector<std::string> own_models;  ///< kinds that are read into OwnModelSpec
};

/// Reads and checks a job. Throws InputError: unknown key, wrong type or unit, out of range, keys
/// that contradict each other
/// ("batch is 30, must be a multiple of micro_batch x replicas = 8").
JobSpec load_job(const std::filesystem::path& file, const LoadOptions& options);

/// Throws InputError for a key that a job of a model that is a graph (model::ChainModel::inputs)
/// cannot have: it runs on one rank, and keeps weights and optimizer state on the device.
void check_graph(const JobSpec& job);
JobSpec read_job(const io::Node& document, const LoadOptions& options);

/// The job with every default written out; reading it gives the same job.
std::string to_yaml(const JobSpec& job);

/// Whether replicas or the size of micro-batches are auto: a shape has to be chosen before anything
/// can be planned.
bool has_open_shape(const JobSpec& job);

/// Throws InputError where the size of micro-batches is auto. For models with batch norm.
void require_micro_batch(const JobSpec& job);

/// Micro-batches per step and replica: batch / (micro_batch x replicas), neither of them auto.
int micro_batches(const JobSpec& job);

}  // namespace trireme::config
