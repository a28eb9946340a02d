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

/// A tape made again without the layer's output, which nobody reads any more: the forward ends with
/// the last tensor that the backward needs.
struct Retape {
  Seconds time;
  Bytes tape;                ///< what it leaves behind
  Bytes tape_transient;      ///< peak above (before + tape)
  Bytes backward_transient;  ///< of the backward that spends it, above what was held before it

  bool operator==(const Retape&) const = default;
};

/// A backward in two parts: first the gradient of the layer's input, with it those of its weights
/// that cost little; then, any time later, the products that are left (Qi et al. 2024, Zero Bubble
/// Pipeline Parallelism).
struct SplitBackward {
  Seconds weights;          ///< the second part; the first takes what is left of `backward`
  Bytes pending;            ///< what the first leaves for the second: operands of products
  Bytes input_transient;    ///< peak of the first part above what was held before it, the new input
                            ///< gradient and what is left inside
  Bytes weights_transient;  ///< peak of the second part above what was held before it

  bool operator==(const SplitBackward&) const = default;
};

/// Of a layer's weights, what may lie in the offload tier but while the layer is used.
struct OffloadWeights {
  Bytes weights;
  Bytes gradients;          ///< what goes with them
  bool is_trained = false;  ///< an update changes them

  Bytes all() const { return weights + gradients; }
  /// The most of it that is copied out at a time; nothing where nothing changes.
  Bytes leaving() const { return is_trained ? std::max(weights, gradients) : Bytes(0); }
  bool operator==(const OffloadWeights&) const = default;
};

/// Cost of one layer at the job's micro-batch size and precision, on its device.
struct LayerCost {
  std::string name;
  Seconds forward;   ///< one forward (taped or not)
  Seconds backward;  ///< one backward
  Bytes output;      ///< x[i], if held by itself; its gradient weighs the same
  Bytes tape;        ///< a[i]: what a taped forward adds and leaves behind; output in, input not
  Bytes forward_transient;   ///< peak of an untaped forward above (before + output)
  Bytes tape_transient;      ///< peak of a taped forward above (before + tape)
  Bytes backward_transient;  ///< peak of a backward above what was held before it, the new input
                             ///< gradient inside
  Bytes parameters, gradients, optimizer;  ///< static while the stage lives
  Seconds update{0};  ///< the optimizer's update of its parameters, once a step
  /// Never more than a whole taped forward (see `capped`). Nothing: its tape is made again by a
  /// whole forward.
  std::optional<Retape> retape = std::nullopt;
  /// Nothing: its backward has one part.
  std::optional<SplitBackward> split = std::nullopt;
  /// Of the parameters, those that stay as they are and that no other layer has.
  Bytes frozen = {};
  /// Of the parameters of a layer without such, those that are trained and that no other layer has,
  /// and their gradients.
  Bytes trained = {}, trained_gradients = {};

  OffloadWeights may_leave() const {
    if (frozen > Bytes(0)) return {.weights = frozen, .gradients = {}, .is_trained = false};
    return {.weights = trained, .gradients = trained_gradients, .is_trained = trained > Bytes(0)};
  }

  /// What it costs to make the tape again; a whole taped forward where nothing less is known.
  Retape again() const {
    return retape.value_or(Retape{forward, tape, tape_transient, backward_transient});
  }

  /// Its backward in two parts, of which the second is nothing where it has only one.
  SplitBackward in_parts() const {
    return split.value_or(SplitBackward{Seconds(0), {}, backward_transient, {}});
  }

  bool operator==(const LayerCost&) const = default;
};

/// The same retape with what is more than a whole taped forward of the layer takes brought down to
/// that: its time, what it leaves, and both peaks above what was held before it. Plans count with
/// whole tapes and run retapes in their place, so a retape must never need more.
Retape capped(Retape retape, const LayerCost& layer);

/// Layers 1..length(); x[0] is the chain's input. Layer `length()` includes the loss.
struct Chain {
  std::string name;
  Bytes input;  ///< x[0]
  std::vector<LayerCost> layers;
  /// Of the optimizer's state, some of which is away, what is cut off is a multiple of it, or ends
  /// where a parameter does; 0: any number of bytes.
  Bytes state_line = {};

  int length() const { return static_cast<int>(layers.size()); }
  /// Layer i of 1..length().
  const LayerCost& layer(int i) const { return layers[static_cast<std::size_t>(i - 1)]; }
  /// x[i] of 0..length().
  Bytes output(int i) const { return i == 0 ? input : layer(i).output; }

  bool operator==(const Chain&) const = default;
};

/// The chain as one of so many replicas has it that divide the optimizer's state: of each layer's
/// state and update no more than its share. Shares begin at whole cache lines, so that one may be
/// kShardSlack bytes more than a part of as many equal ones.
Chain sharded(Chain chain, int shards);
inline constexpr Bytes kShardSlack{2048};

/// Of a layer's weights, what is trained; as many bytes as it has gradients where those say less.
Bytes trained_weights(const LayerCost& layer);

/// Bytes of the optimizer's state of layers first..last.
Bytes optimizer_bytes(const Chain& chain, int first, int last);

/// What `away` bytes of a rank's state take in the offload tier: a cut adds less than a line of the
/// chain. `state` is all of the rank's, tied weights with each of their uses.
Bytes state_room(const Chain& chain, Bytes state, Bytes away);

/// What the update at a step's end takes on the device at least, where `away` bytes of a rank's
/// state come for it in parts: kLeastParts of a line each, and kUpdateScratch. 0 where none is.
Bytes step_room(const Chain& chain, Bytes away);
/// What an update takes beside the parts: a divisor and a count.
inline constexpr Bytes kUpdateScratch{1024};
/// As few parts as copies both ways and an update work on.
inline constexpr int kLeastParts = 3;

/// What a rank holds of its layers' weights where these come and go, and those of `at_once` layers
/// are there at a time: as much as any so many of them take with their gradients, and what leaves.
/// Layers without bytes do not count.
Bytes weights_window(std::vector<OffloadWeights> layers, int at_once);

/// How the optimizer's state comes to the device: in parts, `at_once` of them at a time.
struct StateParts {
  Bytes size;
  int at_once = kLeastParts;

  /// Of these, the most that are on their way out.
  int leaving() const { return at_once / 2; }
};
/// Of layers of the chain that are updated among passes, within a window of bytes: some have come
/// while others still leave. A part has a line at least, and a window kLeastParts of them.
StateParts state_parts(const Chain& chain, Bytes window);
/// The largest part, for copies of more are hardly faster; and what a window holds of such.
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
/// `state_line_bytes` of the chain among them, and `update_s` are 0 by default; `frozen_bytes` or
/// `trained_bytes`, at most `parameter_bytes`, 0 by default, with the latter
/// `trained_gradient_bytes`, at most and by default `gradient_bytes`, and `retape_s` may be there,
/// and with the latter `retape_bytes`, `retape_transient_bytes` and
/// `retape_backward_transient_bytes`, by default those of the whole tape. Units are read ("3MiB",
/// "1.5ms").
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
