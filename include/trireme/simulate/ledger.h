// The memory model (docs: memory model) in one place: what every action needs, adds and frees, in
// bytes. Validator, replay, simulator and solvers' tests all use it.
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

/// Something that a rank holds.
struct Value {
  enum class Kind { kOutput, kTape, kGradient, kTarget, kPending };
  Kind kind{};
  int layer = 0;
  int micro_batch = 0;
  Bytes size;
  bool away = false;  ///< in the offload tier

  bool operator==(const Value&) const = default;
};

/// "x[3]", "tape 3", "gradient of x[3]", "target", "operands of the weights' gradients of 3".
std::string name(const Value& value);
/// The same with " of micro-batch 1".
std::string to_text(const Value& value);

/// What one rank holds, value by value. Applies actions one by one; an illegal one is answered with
/// the reason and changes nothing. Transfers and copies are taken as finished at once: the
/// simulator, which knows time, adds what is still leaving and takes away what has not yet come.
///
/// Where the memory model leaves room:
/// - A value is held once. Making x[i] or tape i again while either holds x[i] on the device, or
///   while x[i] is away, is refused; `drop` the old one first.
/// - A value that was named in an offload may not be used until it was named in a prefetch.
/// - x[0] needs no gradient: `backward 1` leaves none.
/// - `read_loss` puts the gradient of x[L] in the place of a standalone x[L], so that the two never
///   count at once; beside a tape that holds x[L] the gradient is added.
/// - What backward_input leaves counts whole from there to backward_weights, also what of it is
///   part of a value that is held as well. The tape below it stays until then: x[i-1] may be among
///   it.
/// - The target stays from load_target to the backward of L, for L may be run again in between
///   (without backwards: to read_loss). It weighs nothing.
class Ledger {
 public:
  /// What a ledger is for. Actions of other layers are refused.
  struct Scope {
    int first_layer = 1;
    int last_layer = 0;  ///< 0: the chain's last
    bool trains = true;  ///< false: read_loss leaves no gradient (docs: program::trains)
    Bytes step = {};     ///< what a step takes beside what is held
  };

  /// `chain` must outlive the ledger. Memory and set-up grow with the scope, not with the chain.
  Ledger(const chain::Chain& chain, Scope scope);
  Ledger(const Ledger&);  ///< what is held is held twice from then on
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;
  ~Ledger();

  /// Bytes during and after an action.
  struct Effect {
    Bytes during;  ///< peak while it runs, held bytes inside
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

  /// What is there now, on the device and away, zero-byte values too, by micro-batch and layer.
  std::vector<Value> values() const;
  /// Whether nothing is left.
  bool empty() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::simulate
