// SPDX-License-Identifier: Apache-2.0
#include "timed_kernels.h"

#include "schema.h"
#include "stream.h"
#include "timed.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace emulated {
namespace {

using torch::jit::Stack;

/// Work of one operator so far.
struct Tally {
  std::int64_t calls = 0;
  double bytes = 0, flop = 0, seconds = 0;
};

class Tallies {
 public:
  static Tallies& get() {
    static auto* const tallies = new Tallies;
    return *tallies;
  }
  void add(const std::string& name, double bytes, double flop, double seconds) {
    if (file_ == nullptr) return;
    const std::lock_guard lock(mutex_);
    Tally& tally = by_name_[name];
    ++tally.calls;
    tally.bytes += bytes;
    tally.flop += flop;
    tally.seconds += seconds;
  }

 private:
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment
  Tallies() : file_(std::getenv("TRIREME_EMULATED_GPU_COUNT")) {
    if (file_ != nullptr) std::atexit([] { get().write(); });
  }
  void write() {
    const std::lock_guard lock(mutex_);
    std::ofstream out(file_);
    for (const auto& [name, tally] : by_name_)
      out << name << ' ' << tally.calls << ' ' << tally.bytes << ' ' << tally.flop << ' '
          << tally.seconds << '\n';
  }

  const char* file_;
  std::mutex mutex_;
  std::map<std::string, Tally> by_name_;
};

void take_time(const std::string& name, double bytes, double flop, double rate) {
  const double seconds = std::max({bytes / rates().memory, flop / rate, rates().least});
  const auto device = c10::cuda::current_device();
  emulated_gpu_busy(c10::cuda::getCurrentCUDAStream(device).stream(), seconds);
  Tallies::get().add(name, bytes, flop, seconds);
}

/// Bytes of values in memory, each counted once however often a view shows it.
double bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return 0;
  double count = 1;
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.stride(d) != 0) count *= static_cast<double>(tensor.size(d));
  return tensor.numel() == 0 ? 0 : count * static_cast<double>(tensor.element_size());
}

double bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return bytes_of(value.toTensor());
  double bytes = 0;
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) bytes += bytes_of(tensor);
  if (value.isOptionalTensorList())
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor) bytes += bytes_of(*tensor);
  return bytes;
}

/// FLOP of a product of the last two dimensions.
double product_flop(const at::Tensor& a, const at::Tensor& b) {
  return 2.0 * static_cast<double>(a.numel()) * static_cast<double>(b.size(-1));
}

/// Queries [B, H, T, D] with keys of the same T, if causal half of them.
double attention_flop(const at::Tensor& q, const at::Tensor& k, bool is_causal) {
  const double whole = 4.0 * static_cast<double>(q.numel()) * static_cast<double>(k.size(2));
  return is_causal ? whole / 2 : whole;
}

at::Tensor like(const at::Tensor& tensor) {
  return tensor.defined() ? at::empty_like(tensor) : tensor;
}
/// [B, H, T, D] with the memory layout of the kernels.
at::Tensor like_heads(const at::Tensor& tensor) {
  return at::empty(tensor.transpose(1, 2).sizes(), tensor.options()).transpose(1, 2);
}
at::Tensor floats(at::IntArrayRef sizes, const at::Tensor& on) {
  return at::empty(sizes, on.options().dtype(at::kFloat));
}

/// One number per row of the normalised dimensions.
at::Tensor rows(const at::Tensor& x, std::size_t normalised) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(normalised), sizes.end(), 1);
  return floats(sizes, x);
}

Stack attention(const Stack& in) {
  const at::Tensor q = in[0].toTensor(), k = in[1].toTensor();
  const at::Tensor state = at::empty({2}, q.options().dtype(at::kUInt64));
  const at::Tensor none = at::empty({0}, q.options());
  return {like_heads(q), floats({q.size(0), q.size(1), q.size(2)}, q),
          at::Tensor(),  at::Tensor(),
          q.size(2),     k.size(2),
          state,         none,
          none};
}

Stack attention_backward(const Stack& in) {
  const at::Tensor q = in[1].toTensor();
  const at::Tensor sums = floats(q.sizes(), q);  // scratch memory of the kernel
  return {like_heads(q), like_heads(in[2].toTensor()), like_heads(in[3].toTensor())};
}

/// Results of operators that the meta device does not have.
using Rule = std::function<Stack(const Stack&)>;
const std::unordered_map<std::string, Rule>& rules() {
  static const std::unordered_map<std::string, Rule> all{
      {"aten::_scaled_dot_product_flash_attention", attention},
      {"aten::_scaled_dot_product_flash_attention_backward", attention_backward},
      {"aten::index_select",
       [](const Stack& in) -> Stack {
         const at::Tensor from = in[0].toTensor();
         std::vector<std::int64_t> sizes = from.sizes().vec();
         sizes.at(in[1].toInt()) = in[2].toTensor().numel();
         return {at::empty(sizes, from.options())};
       }},
      {"aten::embedding_dense_backward",
       [](const Stack& in) -> Stack {
         const at::Tensor dy = in[0].toTensor();
         return {at::empty({in[2].toInt(), dy.size(-1)}, dy.options())};
       }},
      {"aten::native_dropout_backward",
       [](const Stack& in) -> Stack { return {like(in[0].toTensor())}; }},
      {"aten::native_layer_norm",
       [](const Stack& in) -> Stack {
         const at::Tensor x = in[0].toTensor();
         const std::size_t dimensions = in[1].toIntVector().size();
         return {at::empty(x.sizes(), x.options()), rows(x, dimensions), rows(x, dimensions)};
       }},
      {"aten::native_layer_norm_backward",
       [](const Stack& in) -> Stack {
         const auto mask = in[7].toBoolList();
         const auto wanted = [&](std::size_t i, const c10::IValue& of) {
           return mask[i] && of.isTensor() ? like(of.toTensor()) : at::Tensor();
         };
         return {wanted(0, in[1]), wanted(1, in[5]), wanted(2, in[6])};
       }},
      {"aten::_fused_rms_norm",
       [](const Stack& in) -> Stack {
         const at::Tensor x = in[0].toTensor();
         return {like(x), rows(x, in[1].toIntVector().size())};
       }},
      {"aten::_fused_rms_norm_backward", [](const Stack& in) -> Stack {
         return {like(in[1].toTensor()), like(in[4].toTensor())};
       }}};
  return all;
}

/// Operators that read as many values of their first tensor as they return or write, not all.
bool picks(const std::string& name) {
  static const std::unordered_set<std::string> names{"aten::index_select", "aten::gather",
                                                     "aten::scatter_"};
  return names.contains(name);
}
/// Operators that do not read what they overwrite.
bool fills(const std::string& name) {
  static const std::unordered_set<std::string> names{"aten::zero_",   "aten::fill_",
                                                     "aten::normal_", "aten::_foreach_copy_",
                                                     "aten::random_", "aten::bernoulli_"};
  return names.contains(name);
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// A call's arguments and results.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack arguments)
      : op_(op), name_(op.operator_name().name), arguments_(std::move(arguments)) {}

  Stack results() {
    if (all_given()) return given();
    const auto rule = rules().find(name_);
    if (rule != rules().end()) return rule->second(arguments_);
    return made_like_meta();
  }

  void take_time(const Stack& results) const {
    emulated::take_time(op_.operator_name().name, bytes(results), flop(),
                        is_attention() ? rates().attention : rates().products);
  }

 private:
  bool is_attention() const { return name_.find("flash_attention") != std::string::npos; }

  double flop() const {
    const auto tensor = [this](std::size_t i) { return arguments_[i].toTensor(); };
    if (name_ == "aten::mm" || name_ == "aten::bmm") return product_flop(tensor(0), tensor(1));
    if (name_ == "trireme::add_product_") return product_flop(tensor(1), tensor(2));
    if (name_ == "aten::addmm" || name_ == "aten::baddbmm")
      return product_flop(tensor(1), tensor(2));
    if (name_ == "aten::_scaled_dot_product_flash_attention")
      return attention_flop(tensor(0), tensor(1), arguments_[4].toBool());
    if (name_ == "aten::_scaled_dot_product_flash_attention_backward")
      return 2.5 * attention_flop(tensor(1), tensor(2), arguments_[11].toBool());
    return 0;
  }

  double bytes(const Stack& results) const {
    double read = 0, written = 0;
    const auto& named = op_.schema().arguments();
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const double all = bytes_of(arguments_[i]);
      const bool is_output = is_written(named[i]);
      if (is_output) written += all;
      if (!(is_output && (named[i].is_out() || fills(name_)))) read += all;
    }
    for (std::size_t i = 0; i < results.size(); ++i)
      if (op_.schema().returns()[i].alias_info() == nullptr) written += bytes_of(results[i]);
    if (!picks(name_)) return read + written;
    const bool is_scatter = name_ == "aten::scatter_";
    const double picked = is_scatter ? bytes_of(arguments_[2]) : bytes_of(results.at(0));
    return 3 * picked;  // values, indices, results
  }

  std::optional<std::size_t> source(const c10::Argument& result) const {
    return argument_of(op_.schema(), result);
  }
  bool all_given() const {
    for (const c10::Argument& result : op_.schema().returns()) {
      const auto at = source(result);
      if (!at) return false;
      const c10::IValue& value = arguments_[*at];
      if (value.isTensor() && value.toTensor().numel() == 0) return false;  // to be resized
    }
    return true;
  }
  Stack given() const {
    Stack all;
    for (const c10::Argument& result : op_.schema().returns())
      all.push_back(arguments_[*source(result)]);
    return all;
  }

  static at::Tensor to_meta(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
  }
  static c10::IValue to_meta(const c10::IValue& value) {
    if (value.isTensor()) return to_meta(value.toTensor());
    if (value.isDevice()) return c10::Device(at::kMeta);
    if (value.isGenerator()) return c10::IValue();
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(to_meta(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional(to_meta(*tensor)) : std::nullopt);
      return list;
    }
    return value;
  }
  static at::Tensor from_meta(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_meta()) return tensor;
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCUDA));
  }
  static c10::IValue from_meta(const c10::IValue& value) {
    if (value.isTensor()) return from_meta(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(from_meta(tensor));
    return list;
  }

  Stack made_like_meta() const {
    Stack stack;
    for (const c10::IValue& value : arguments_) stack.push_back(to_meta(value));
    op_.callBoxed(&stack);
    for (std::size_t i = 0; i < stack.size(); ++i) {
      const auto at = source(op_.schema().returns()[i]);
      if (!at) {
        stack[i] = from_meta(stack[i]);
        continue;
      }
      at::Tensor sized = arguments_[*at].toTensor();
      if (sized.numel() == 0) sized.resize_(stack[i].toTensor().sizes());
      stack[i] = sized;
    }
    return stack;
  }

  const c10::OperatorHandle& op_;
  const std::string name_;
  const Stack arguments_;
};

}  // namespace

void run_timed(const c10::OperatorHandle& op, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const std::size_t count = op.schema().arguments().size();
  Call call(op, torch::jit::last(*stack, count).vec());
  torch::jit::drop(*stack, count);
  Stack results = call.results();
  call.take_time(results);
  for (c10::IValue& value : results) stack->push_back(std::move(value));
}

void count_conversion(const at::Tensor& to, const at::Tensor& from) {
  take_time("aten::copy_", bytes_of(to) + bytes_of(from), 0, rates().products);
}

}  // namespace emulated
