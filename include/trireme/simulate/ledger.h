// The memory model (docs/memory.md) in one place: the bytes that every action needs, adds and
// frees. Validator, replay, simulator and the solvers' tests all use it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/program/action.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::simulate {

/// A value that a rank holds.
struct Value {
  /// kStays: on the device, of a tape in the offload tier.
  enum class Kind { kOutput, kTape, kStays, kGradient, kTarget, kPending };
  Kind kind{};
  int layer = 0;
  int micro_batch = 0;
  Bytes size;
  bool offloaded = false;  ///< in the offload tier

  bool operator==(const Value&) const = default;
};

/// "x[3]", "tape 3", "what stays of tape 3", "gradient of x[3]", "target", "operands of the weight
/// gradients of layer 3".
std::string name(const Value& value);
/// The same with " of micro-batch 1".
std::string to_text(const Value& value);

/// What one rank holds, value by value. Applies actions one by one; an illegal one returns the
/// reason and changes nothing. Messages and copies complete at once here; the simulator, which
/// models time, adds what is still being copied out and subtracts what has not yet been copied in.
///
/// Details of the model:
/// - A value is held once. Making x[i] or tape i again while either holds x[i] on the device, or
///   while x[i] is offloaded, is refused; `drop` the old one first.
/// - After its offload action a value may not be used until its prefetch action. Of a tape,
///   LayerCost::tape_stays stay on the device meanwhile.
/// - x[0] needs no gradient: `backward 1` leaves none.
/// - `read_loss` replaces a standalone x[L] with its gradient, so that the two never count at once;
///   if a tape holds x[L], the gradient is added.
/// - What backward_input leaves pending counts in full until backward_weights, even where it is
///   part of another held value. The tape of layer i-1 may not be offloaded until then: x[i-1] may
///   be among the pending values.
/// - The target is held from load_target to the backward of L, because L may be recomputed in
///   between (without backwards: to read_loss). It counts as 0 bytes.
class Ledger {
 public:
  /// The layers that a ledger covers. Actions of other layers are refused.
  struct Scope {
    int first_layer = 1;
    int last_layer = 0;  ///< 0: the chain's last
    bool trains = true;  ///< false: read_loss leaves no gradient (program::trains)
    Bytes step = {};     ///< what `step` needs in addition to what is held
  };

  /// `chain` must outlive the ledger. Memory and set-up time grow with the scope, not with the
  /// chain.
  Ledger(const chain::Chain& chain, Scope scope);
  Ledger(const Ledger&);  ///< copies all held values
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;
  ~Ledger();

  /// Bytes during and after an action.
  struct Effect {
    Bytes during;  ///< peak while it runs, held bytes included
    Bytes after;
  };

  /// Why `action` may not happen now ("x[3] is not held"), or its effect, which is then applied.
  struct Outcome {
    std::optional<std::string> fault;
    Effect effect;
  };
  Outcome apply(const program::Action& action);

  Bytes held() const;
  Bytes offloaded() const;  ///< bytes in the offload tier

  /// All values held now, on the device and offloaded, zero-byte values too, by micro-batch and
  /// layer.
  std::vector<Value> values() const;
  /// Whether no value is left.
  bool empty() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::simulate
