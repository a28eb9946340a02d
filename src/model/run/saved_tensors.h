// Saved-tensor hooks in C++: LibTorch offers them only to Python, but its engine asks for them
// through a virtual function that a subclass may override.
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

/// A tensor saved for backward. With hooks, autograd no longer checks whether it was changed in
/// place since; this class does.
class SavedTensor {
 public:
  void set(const at::Tensor& tensor);
  /// Holds no tensor any more.
  void clear() { tensor_.reset(); }
  /// Records the tensor's version without holding its memory.
  void note(const at::Tensor& tensor);
  /// Whether the tensor that was set or noted was changed in place since.
  bool is_changed() const;
  /// Throws c10::Error if there is no tensor, or if it was changed in place (told_change).
  const at::Tensor& get() const;

 private:
  at::Tensor tensor_;
  c10::VariableVersion counter_;
  std::uint32_t version_ = 0;
};

/// Rewords the error of autograd or SavedTensor for a tensor that was changed in place, for the
/// layer's author; empty if `words` are another error.
std::string told_change(const std::string& words);

/// While an object lives, what autograd saves on this thread goes through its hooks. Installs an
/// autograd engine that asks for them, before the first backward of any thread.
class SavingScope {
 public:
  SavingScope();
  virtual ~SavingScope();
  SavingScope(const SavingScope&) = delete;
  SavingScope& operator=(const SavingScope&) = delete;

  /// Hooks for the next tensor that is saved.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() = 0;

 protected:
  /// Hooks of the enclosing scope; null if there is none.
  std::unique_ptr<torch::autograd::SavedVariableHooks> enclosing_hooks() const;

 private:
  SavingScope* enclosing_;
};

/// Saves as usual and records every storage once.
class NotingScope final : public SavingScope {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override;
  void note(const c10::Storage& storage);
  std::vector<c10::Storage> take() { return std::move(storages_); }

 private:
  std::vector<c10::Storage> storages_;
};

/// For lean tapes: saves a value's stand-ins, if it has any, instead of the value; all through the
/// hooks of the enclosing scope.
class RemakingScope final : public SavingScope {
 public:
  using Make = std::function<at::Tensor(const Values& sources)>;
  struct StandIn {
    c10::weak_intrusive_ptr<c10::StorageImpl> value;  ///< freed as if there were no stand-in
    Values sources;
    Make make;
    std::vector<std::uint32_t> versions = {};  ///< of value and sources when registered
  };

  RemakingScope();
  ~RemakingScope() override;
  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override;

  /// What is saved of `value` in this thread's innermost such scope, if any, will be make(sources).
  /// Does nothing for a value that shares a source's storage: saving it costs nothing.
  static void stand_in(const at::Tensor& value, Values sources, Make make);
  /// Null if the tensor has none, or if it or its sources were changed in place since. Views of a
  /// value use its stand-ins.
  const StandIn* find(const at::Tensor& tensor) const;
  using SavingScope::enclosing_hooks;

 private:
  std::vector<StandIn> stand_ins_;
  RemakingScope* enclosing_remaking_;
};

/// Saves nothing: records empty places in forward order.
class OutlineScope final : public SavingScope {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override;
  /// For a tensor that is saved. Autograd also asks for hooks of numbers (the 1.5 of x * 1.5), and
  /// saves these without them.
  std::shared_ptr<SavedTensor> new_place();
  /// Call after the forward: throws InputError if it changed in place what the backward will need.
  /// A recomputed forward may end before the change, and would not detect it.
  void require_unchanged() const;
  std::vector<std::shared_ptr<SavedTensor>> take() { return std::move(places_); }

 private:
  std::vector<std::shared_ptr<SavedTensor>> places_;
};

/// Records what is saved, in forward order, so that it can be taken out and put in again.
class TracingScope final : public SavingScope {
 public:
  struct Saved {
    std::shared_ptr<SavedTensor> place;
    at::Tensor tensor;  ///< detached
  };

  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override;
  void add(Saved saved) { saved_.push_back(std::move(saved)); }
  /// As OutlineScope.
  void require_unchanged() const;
  std::vector<Saved> take() { return std::move(saved_); }

 private:
  std::vector<Saved> saved_;
};

/// Puts what a recomputed forward saves into the places of the first; the second forward's own
/// graph gets no tensors. Ends the layer early, by end_early(), as soon as all places are filled.
class FillingScope final : public SavingScope {
 public:
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
