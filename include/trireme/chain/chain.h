// A chain of layers with what each costs: the planner's only view of a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/io/node.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::chain {

/// Early-stop recomputation of a tape, without the layer's output, which nothing reads any more:
/// the forward ends with the last tensor that the backward needs.
struct Retape {
  Seconds time;
  Bytes tape;                ///< what it leaves
  Bytes tape_transient;      ///< peak above (before + tape)
  Bytes backward_transient;  ///< peak of its backward above what was held before that

  bool operator==(const Retape&) const = default;
};

/// A split backward: the first part computes the gradient of the layer's input, and of weights what
/// costs little; the second, at any later time, the remaining products (Qi et al. 2024, Zero Bubble
/// Pipeline Parallelism).
struct SplitBackward {
  Seconds weights;          ///< the second part; the first takes what is left of `backward`
  Bytes pending;            ///< what the first leaves for the second: operands of products
  Bytes input_transient;    ///< peak of the first part above what was held before it, including the
                            ///< new input gradient and `pending`
  Bytes weights_transient;  ///< peak of the second part above what was held before it

  bool operator==(const SplitBackward&) const = default;
};

/// Weights of a layer that can be streamed: in the offload tier, and on the device only while the
/// layer is used.
struct OffloadWeights {
  Bytes weights;
  Bytes gradients;          ///< are copied with them
  bool is_trained = false;  ///< an update changes them

  Bytes all() const { return weights + gradients; }
  /// Largest copy out at a time; 0 where nothing changes.
  Bytes leaving() const { return is_trained ? std::max(weights, gradients) : Bytes(0); }
  bool operator==(const OffloadWeights&) const = default;
};

/// Cost of one layer at the job's micro-batch size and precision, on its device.
struct LayerCost {
  std::string name;
  Seconds forward;   ///< one forward (taped or not)
  Seconds backward;  ///< one backward
  Bytes output;      ///< x[i], if held by itself; its gradient weighs the same
  Bytes tape;  ///< a[i]: what a taped forward adds and leaves, with the output, without the input
  Bytes forward_transient;   ///< peak of an untaped forward above (before + output)
  Bytes tape_transient;      ///< peak of a taped forward above (before + tape)
  Bytes backward_transient;  ///< peak of a backward above what was held before it, including the
                             ///< new input gradient
  Bytes parameters, gradients, optimizer;  ///< static while the stage lives
  Seconds update{0};  ///< the optimizer's update of its parameters, once a step
  /// Energy of one forward and one backward; 0: not known, so that the rank's power model counts
  /// (RankSpec::power).
  Joules forward_energy{0}, backward_energy{0};
  /// Early-stop recomputation, never more than a whole taped forward (see `capped`). Nothing: the
  /// tape is recomputed by a whole forward.
  std::optional<Retape> retape = std::nullopt;
  /// Nothing: the backward cannot be split.
  std::optional<SplitBackward> split = std::nullopt;
  /// Bytes of parameters that are frozen and not tied to another layer.
  Bytes frozen = {};
  /// In a layer without such: bytes of parameters that are trained and not tied to another layer,
  /// and of their gradients.
  Bytes trained = {}, trained_gradients = {};
  /// Part of the tape that stays on the device where the tape is offloaded: what its graph holds
  /// besides saved tensors.
  Bytes tape_stays = {};

  /// What of the tape is copied to the offload tier.
  Bytes tape_moves() const { return tape - tape_stays; }

  OffloadWeights may_leave() const {
    if (frozen > Bytes(0)) return {.weights = frozen, .gradients = {}, .is_trained = false};
    return {.weights = trained, .gradients = trained_gradients, .is_trained = trained > Bytes(0)};
  }

  /// Cost of recomputing the tape; that of a whole taped forward without a `retape`.
  Retape again() const {
    return retape.value_or(Retape{forward, tape, tape_transient, backward_transient});
  }

  /// The backward in two parts, the second of which is empty where it cannot be split.
  SplitBackward in_parts() const {
    return split.value_or(SplitBackward{Seconds(0), {}, backward_transient, {}});
  }

  bool operator==(const LayerCost&) const = default;
};

/// The retape with each number limited to that of a whole taped forward of the layer: its time,
/// what it leaves, and both peaks above what was held before it. Plans are made with whole tapes
/// and run retapes in their place, so a retape must never need more.
Retape capped(Retape retape, const LayerCost& layer);

/// Layers 1..length(); x[0] is the chain's input. Layer `length()` includes the loss.
struct Chain {
  std::string name;
  Bytes input;  ///< x[0]
  std::vector<LayerCost> layers;
  /// Granularity of optimizer state offload: the offloaded bytes are a multiple of it, or end where
  /// a parameter does; 0: any number of bytes.
  Bytes state_line = {};

  int length() const { return static_cast<int>(layers.size()); }
  /// Layer i of 1..length().
  const LayerCost& layer(int i) const { return layers[static_cast<std::size_t>(i - 1)]; }
  /// x[i] of 0..length().
  Bytes output(int i) const { return i == 0 ? input : layer(i).output; }

  bool operator==(const Chain&) const = default;
};

/// The chain of a replica whose optimizer is sharded over `shards` replicas (ZeRO-1): each layer
/// has no more than its share of state and update. Shares begin at whole cache lines, so that one
/// may be kShardSlack bytes more than an equal part.
Chain sharded(Chain chain, int shards);
inline constexpr Bytes kShardSlack{2048};

/// Bytes of a layer's trained weights: all that are not frozen, but no more than its gradients.
Bytes trained_weights(const LayerCost& layer);

/// Bytes of the optimizer's state of layers first..last.
Bytes optimizer_bytes(const Chain& chain, int first, int last);

/// Bytes that `offloaded` bytes of a rank's optimizer state need in the offload tier: rounding adds
/// less than a state line of the chain. `state` is all of the rank's, tied weights with each of
/// their uses.
Bytes state_room(const Chain& chain, Bytes state, Bytes offloaded);

/// Least device bytes for the update at a step's end, where `offloaded` bytes of a rank's state are
/// copied in for it in parts: kLeastParts of a state line each, and kUpdateScratch. 0 where nothing
/// is offloaded.
Bytes step_room(const Chain& chain, Bytes offloaded);
/// What an update takes in addition to the parts: a divisor and a count.
inline constexpr Bytes kUpdateScratch{1024};
/// Fewest parts: one copied in, one updated, one copied out.
inline constexpr int kLeastParts = 3;

/// Device bytes for a rank's streamed layers, `at_once` of them on the device at a time: the
/// largest sum of that many with their gradients, and the largest copy out. Layers without bytes do
/// not count.
Bytes weights_window(std::vector<OffloadWeights> layers, int at_once);

/// Staging of offloaded optimizer state on the device: parts, `at_once` of them at a time.
struct StateParts {
  Bytes size;
  int at_once = kLeastParts;

  /// Most of these that are being copied out.
  int leaving() const { return at_once / 2; }
};
/// Parts for layers with an overlapped optimizer step, within a window of bytes: some are copied in
/// while others are still copied out. A part has at least a state line, and a window kLeastParts of
/// them.
StateParts state_parts(const Chain& chain, Bytes window);
/// The largest part (larger copies are hardly faster), and a window of such.
inline constexpr Bytes kLargestStatePart{std::int64_t{32} << 20};
inline constexpr Bytes kLargestStateWindow = kLargestStatePart * 6;

/// Static bytes that a rank does not hold because its layers share tied weights.
struct SharedBytes {
  Bytes weights, optimizer;

  Bytes all() const { return weights + optimizer; }
};

/// Most layers that a chain file may have, and its most bytes.
inline constexpr int kMaxLayers = 100'000;
inline constexpr Bytes kMaxChainFile{std::int64_t{64} << 20};

/// Reads `trireme-chain/1`. `name` and `input_bytes` of the chain and `name`, `forward_s`,
/// `backward_s`, `output_bytes`, `tape_bytes` of a layer must be there, the other bytes,
/// `state_line_bytes` of the chain among them, `update_s`, and the energies `forward_j` and
/// `backward_j` are 0 by default; `frozen_bytes` or
/// `trained_bytes`, at most `parameter_bytes`, 0 by default, with the latter
/// `trained_gradient_bytes`, at most and by default `gradient_bytes`, and `retape_s` may be there,
/// and with the latter `retape_bytes`, `retape_transient_bytes` and
/// `retape_backward_transient_bytes`, by default those of the whole tape; and `tape_stays_bytes`,
/// at most `tape_bytes`, 0 by default. Units are read ("3MiB", "1.5ms").
///
/// Throws InputError with file, line, layer and field: unknown key, negative or non-finite number,
/// a retape that takes more than a whole taped forward (`capped`), no layers, more than kMaxLayers,
/// a sum of sizes over 2^62.
Chain load_chain(const std::filesystem::path& file);
Chain read_chain(const io::Node& document);

/// The same format, numbers exact: load(write(c)) == c.
std::string to_yaml(const Chain& chain);

/// Digest of all costs, without names: two chains that cost the same are the same to a plan.
std::string digest(const Chain& chain);

}  // namespace trireme::chain
