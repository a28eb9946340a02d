// What autograd saves during a forward, seen from C++: LibTorch offers saved-tensor hooks to Python
// alone, but asks the engine for them through a virtual function that a subclass may override.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/taped.h"

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trireme::model {

/// A tensor that a backward needs. With hooks, autograd no longer asks whether it was changed in
/// place since: this does.
class SavedTensor {
 public:
  void set(const at::Tensor& tensor);
  /// Takes note of the tensor's version, and holds none of its memory.
  void note(const at::Tensor& tensor);
  /// Whether what was set or noted was changed in place since.
  bool is_changed() const;
  /// Throws c10::Error if there is none, or if it was changed in place (told_change).
  const at::Tensor& get() const;

 private:
  at::Tensor tensor_;
  c10::VariableVersion counter_;
  std::uint32_t version_ = 0;
};

/// What autograd or SavedTensor says of a tensor that was changed in place, in words for whoever
/// wrote the layer; empty where `words` are of another error.
std::string told_change(const std::string& words);

/// While it lives, what autograd saves on this thread goes through its hooks. Makes the process's
/// autograd engine one that asks for them, before the first backward of any thread.
class SavingScope {
 public:
  SavingScope();
  virtual ~SavingScope();
  SavingScope(const SavingScope&) = delete;
  SavingScope& operator=(const SavingScope&) = delete;

  /// For the next tensor that is saved.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() = 0;

 protected:
  /// Those of the scope around this one; null if there is none.
  std::unique_ptr<torch::autograd::SavedVariableHooks> offload_hooks() const;

 private:
  SavingScope* offload_;
};

/// Saves as usual and notes every storage once.
class NotingScope final : public SavingScope {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override;
  void note(const c10::Storage& storage);
  std::vector<c10::Storage> take() { return std::move(storages_); }

 private:
  std::vector<c10::Storage> storages_;
};

/// Saves, in place of a value that has stand-ins, these; all through the scope around it.
class RemakingScope final : public SavingScope {
 public:
  using Make = std::function<at::Tensor(const Values& sources)>;
  struct StandIn {
    c10::weak_intrusive_ptr<c10::StorageImpl> value;  ///< which goes as if there were no stand-in
    Values sources;
    Make make;
    std::vector<std::uint32_t> versions = {};  ///< of value and sources when it was made
  };

  RemakingScope();
  ~RemakingScope() override;
  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override;

  /// Whatever is saved of `value` in this thread's innermost such scope, if there is one, will be
  /// make(sources). Not of a value that shows a source's own bytes: it costs none.
  static void stand_in(const at::Tensor& value, Values sources, Make make);
  /// Null if the tensor has none, or it or its sources were changed in place since. Views of a
  /// value have its stand-ins.
  const StandIn* find(const at::Tensor& tensor) const;
  using SavingScope::offload_hooks;

 private:
  std::vector<StandIn> stand_ins_;
  RemakingScope* offload_remaking_;
};

/// Saves nothing: leaves empty places, in the order of the forward.
class OutlineScope final : public SavingScope {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override;
  /// Once the forward has ended: throws InputError where it changed in place what the backward will
  /// ask for. A repeated forward may end before the change, and would never tell.
  void require_unchanged() const;
  std::vector<std::shared_ptr<SavedTensor>> take() { return std::move(places_); }

 private:
  std::vector<std::shared_ptr<SavedTensor>> places_;
};

/// Puts what a second forward saves into the places of the first; what that forward's own graph
/// would need is not there. Throws Filled as soon as all places are filled, out of the layer.
class FillingScope final : public SavingScope {
 public:
  struct Filled {};

  explicit FillingScope(const std::vector<std::shared_ptr<SavedTensor>>& places)
      : places_(places) {}
  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override;
  void fill(const at::Tensor& tensor);
  std::size_t filled() const { return filled_; }

 private:
  const std::vector<std::shared_ptr<SavedTensor>>& places_;
  std::size_t filled_ = 0;
};

}  // namespace trireme::model
