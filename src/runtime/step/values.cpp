// SPDX-License-Identifier: Apache-2.0
#include "step/values.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/tier/storage_bytes.h"

#include <algorithm>

namespace trireme::runtime {
namespace {

template <class Held>
Held take(std::map<ValueStore::Key, Held>& from, ValueStore::Key key, const char* what) {
  auto node = from.extract(key);
  ensure(!node.empty(),
         concat(what, " ", key.layer, " of micro-batch ", key.micro_batch, " is held"));
  return std::move(node.mapped());
}

/// For an output that was recomputed or copied back; user-defined layers may break this.
void require_as_before(bool is_alike, int layer) {
  if (is_alike) return;
  throw InputError(concat(
      "layer ", layer,
      ": forward was run again and gave values of other sizes, types or strides than before: what "
      "it does must not depend on anything but its input, its parameters and the context"));
}

void free_owner(void* context) {
  delete static_cast<c10::Storage*>(context);
}

bool stands_on_another(const c10::Storage& view) {
  return view.data_ptr().get_deleter() == &free_owner;
}

/// Makes `view` use the bytes of `owner` and keep them alive.
void stand_on(const c10::Storage& view, const c10::Storage& owner) {
  ensure(view.nbytes() == owner.nbytes(), "an output that comes back has the size that it had");
  auto* const held = new c10::Storage(owner);
  view.unsafeGetStorageImpl()->set_data_ptr_noswap(
      {held->mutable_data(), held, &free_owner, owner.device()});
}

}  // namespace

const model::Values& ValueStore::output(Key key) const {
  if (const auto standalone = outputs_.find(key); standalone != outputs_.end())
    return standalone->second;
  const auto tape = tapes_.find(key);
  ensure(tape != tapes_.end(),
         concat("output ", key.layer, " of micro-batch ", key.micro_batch, " is held"));
  return tape->second.outputs;
}

void ValueStore::put_output(Key key, model::Values values) {
  connect(key, outputs_[key] = std::move(values));
}

model::Values ValueStore::take_output(Key key) {
  if (outputs_.contains(key)) return take(outputs_, key, "output");
  return output(key);
}

void ValueStore::drop_output(Key key) {
  const auto found = outputs_.find(key);
  if (found == outputs_.end()) return;
  disconnect(key, found->second);
  outputs_.erase(found);
}

void ValueStore::put_tape(Key key, model::Tape tape) {
  const model::Tape& held = tapes_[key] = std::move(tape);
  if (!held.outputs.empty()) connect(key, held.outputs);
}

model::Tape ValueStore::take_tape(Key key) {
  return take(tapes_, key, "tape");
}

std::vector<c10::Storage> ValueStore::storages(const program::ValueKey& value) const {
  const Key key{value.layer, value.micro_batch};
  if (value.tape) {
    ensure(tapes_.contains(key), "a tape that moves is held");
    return tapes_.at(key).storages;
  }
  ensure(outputs_.contains(key), "an output that moves is held");
  std::vector<c10::Storage> storages;
  for (const at::Tensor& tensor : outputs_.at(key)) {
    const auto is_same = [&](const c10::Storage& known) {
      return known.is_alias_of(tensor.storage());
    };
    if (std::none_of(storages.begin(), storages.end(), is_same))
      storages.push_back(tensor.storage());
  }
  return storages;
}

void ValueStore::left(const program::ValueKey& value) {
  const Key key{value.layer, value.micro_batch};
  if (!value.tape) {
    auto output = outputs_.extract(key);
    ensure(!output.empty(), "an output that leaves was held");
    disconnect(key, output.mapped());
    offloaded_.insert_or_assign(key, std::move(output.mapped()));
    return;
  }
  disconnect(key, tapes_.at(key).outputs);
  // While its tape was offloaded, x[i] may have been recomputed.
  if (outputs_.contains(key)) connect(key, outputs_.at(key));
}

void ValueStore::returned(const program::ValueKey& value) {
  const Key key{value.layer, value.micro_batch};
  if (value.tape) return connect(key, tapes_.at(key).outputs);
  put_output(key, take(offloaded_, key, "offloaded output"));
}

/// x[i] is available: the tape of i + 1, if one waits without its input, uses it from now on.
void ValueStore::connect(Key key, const model::Values& output) {
  const auto above = tapes_.find({key.layer + 1, key.micro_batch});
  if (above == tapes_.end()) return;
  const model::Values& seen = above->second.inputs;
  require_as_before(seen.size() == output.size(), key.layer);
  for (std::size_t member = 0; member < seen.size(); ++member) {
    const at::Tensor& view = seen[member];
    const at::Tensor& value = output[member];
    if (view.storage().data() != nullptr) continue;
    require_as_before(
        view.strides() == value.strides() && view.storage_offset() == value.storage_offset() &&
            view.sizes() == value.sizes() && view.scalar_type() == value.scalar_type() &&
            view.storage().nbytes() == value.storage().nbytes(),
        key.layer);
    stand_on(view.storage(), value.storage());
  }
}

/// x[i] is freed: the tape of i + 1, if there is one, must not hold its bytes.
void ValueStore::disconnect(Key key, const model::Values& output) {
  const auto above = tapes_.find({key.layer + 1, key.micro_batch});
  if (above == tapes_.end()) return;
  for (const at::Tensor& view : above->second.inputs) {
    const bool is_of_output =
        std::any_of(output.begin(), output.end(), [&](const at::Tensor& value) {
          return value.storage().unsafeGetStorageImpl() == view.storage().unsafeGetStorageImpl();
        });
    if (is_of_output || stands_on_another(view.storage())) tier::free_bytes(view.storage());
  }
}

void ValueStore::put_gradient(Key key, model::Values gradients) {
  gradients_[key] = std::move(gradients);
}

const model::Values& ValueStore::gradient(Key key) const {
  const auto found = gradients_.find(key);
  ensure(found != gradients_.end(), "a gradient that is read is held");
  return found->second;
}

model::Values ValueStore::take_gradient(Key key) {
  return take(gradients_, key, "gradient");
}

void ValueStore::clear() {
  outputs_.clear();
  offloaded_.clear();
  tapes_.clear();
  gradients_.clear();
}

}  // namespace trireme::runtime
