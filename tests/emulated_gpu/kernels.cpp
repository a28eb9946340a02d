// LibTorch's operators on an emulated GPU: each waits for the work queued on its stream before, and
// runs its CPU kernel on the same bytes, which are host memory. Its results are queued on the
// stream, which stores them as late as it may; room for results comes from the CUDA allocator, as
// always. Operators that launch nothing stay LibTorch's own.
// SPDX-License-Identifier: Apache-2.0
#include "own_operators.h"
#include "schema.h"
#include "stream.h"
#include "timed.h"
#include "timed_kernels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace emulated {
namespace {

using torch::jit::Stack;

/// Operators that allocate, view a tensor differently, or read one number by cudaMemcpyAsync.
const std::unordered_set<std::string>& native_operators() {
  static const std::unordered_set<std::string> names{"_local_scalar_dense",
                                                     "_pin_memory",
                                                     "_reshape_alias",
                                                     "as_strided",
                                                     "empty",
                                                     "empty_strided",
                                                     "is_pinned",
                                                     "is_set_to",
                                                     "record_stream",
                                                     "resize_",
                                                     "set_",
                                                     "unfold",
                                                     "view",
                                                     "view_as_complex",
                                                     "view_as_real"};
  return names;
}

void wait_for_stream(c10::Device device) {
  c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
}

/// The same bytes as a CPU tensor.
at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  const at::TensorOptions options = tensor.options().device(at::kCPU);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
}

/// Queues that `target`, on a device, will hold `values`, of the host.
void write_late(const at::Tensor& target, const at::Tensor& values) {
  if (values.numel() == 0) return;
  struct Write {
    at::Tensor to, from;
  };
  const cudaError_t status = cudaLaunchHostFunc(
      c10::cuda::getCurrentCUDAStream(target.device().index()),
      [](void* data) {
        const std::unique_ptr<Write> write(static_cast<Write*>(data));
        const at::AutoDispatchBelowADInplaceOrView below;
        write->to.copy_(write->from);
      },
      new Write{on_host(target), values});
  TORCH_CHECK(status == cudaSuccess, "an emulated GPU takes no more work");
}

at::Tensor on_device(const at::Tensor& tensor, c10::Device device) {
  if (!tensor.defined()) return tensor;
  const at::Tensor copy =
      at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
  write_late(copy, tensor);
  return copy;
}

struct AtWork {
  AtWork() { emulated_gpu_kernel(true); }
  ~AtWork() { emulated_gpu_kernel(false); }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
};

/// Products of bfloat16 matrices are computed in float32, because they are very slow on most CPUs.
bool is_matrix_product(const c10::OperatorName& name) {
  static const std::unordered_set<std::string> names{"aten::addmm", "aten::baddbmm", "aten::bmm",
                                                     "aten::mm"};
  return name.overload_name.empty() && names.contains(name.name);
}

bool is_log_softmax(const c10::OperatorName& name) {
  return name.name == "aten::_log_softmax" && name.overload_name.empty();
}

/// A call's arguments, translated to the CPU; those written to become copies.
class Call {
 public:
  Call(const c10::OperatorHandle& op, const Stack& arguments) : op_(op), arguments_(arguments) {
    widens_ = is_matrix_product(op_.operator_name()) &&
              arguments_[0].toTensor().scalar_type() == at::kBFloat16;
    for (const c10::IValue& value : arguments_) find_device(value);
    wait_for_stream(device());
    const std::vector<c10::Argument>& named = op_.schema().arguments();
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      is_written_ = named[i].alias_info() != nullptr && named[i].alias_info()->isWrite();
      stack_.push_back(translate(arguments_[i]));
    }
  }

  void run() {
    // The result of LibTorch's CUDA kernel (host_softmax in SoftMax.cu).
    TORCH_CHECK(!is_log_softmax(op_.operator_name()) || !stack_[2].toBool() ||
                    stack_[0].toTensor().scalar_type() == at::kHalf,
                "conversion is supported for Half type only");
    if (op_.hasTag(at::Tag::nondeterministic_seeded)) return run_with_generator();
    op_.callBoxed(&stack_);
  }

  /// The results for the operator's caller.
  Stack results() const {
    for (const auto& [target, values] : written_) {
      // An argument that was empty may have been resized.
      if (target.numel() == 0 && values.numel() > 0) target.resize_(values.sizes());
      write_late(target, values);
    }
    Stack all;
    const std::vector<c10::Argument>& returns = op_.schema().returns();
    for (std::size_t i = 0; i < returns.size(); ++i) {
      const auto written = argument_of(op_.schema(), returns[i]);
      all.push_back(written ? arguments_[*written] : back(stack_[i]));
    }
    return all;
  }

 private:
  c10::Device device() const {
    if (device_) return *device_;
    return {c10::DeviceType::CUDA, c10::cuda::current_device()};
  }

  /// A kernel takes no host tensor except a number, as on a GPU.
  void find_device(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    TORCH_CHECK(tensor.is_cuda() || tensor.dim() == 0, op_.operator_name(), ": a tensor on ",
                tensor.device(), " among those on an emulated GPU");
    if (tensor.is_cuda()) device_ = tensor.device();
  }
  void find_device(const c10::IValue& value) {
    if (value.isTensor()) find_device(value.toTensor());
    if (value.isDevice()) device_ = value.toDevice();
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) find_device(tensor);
  }

  at::Tensor translate(const at::Tensor& tensor) {
    const at::Tensor same = on_host(tensor);
    if (widens_) return same.to(at::kFloat);
    if (!is_written_ || !tensor.defined() || !tensor.is_cuda()) return same;
    return written_.emplace_back(tensor, same.clone()).second;
  }
  c10::IValue translate(const c10::IValue& value) {
    if (value.isTensor()) return translate(value.toTensor());
    if (value.isDevice()) return c10::Device(at::kCPU);
    if (value.isGenerator()) {
      TORCH_CHECK(value.toGenerator().device().is_cuda(), op_.operator_name(),
                  ": a generator of the host for an emulated GPU");
      generator_ = value.toGenerator();
      return c10::IValue();  // the default one stands for it
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(translate(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional(on_host(*tensor)) : std::nullopt);
      return list;
    }
    return value;
  }

  c10::IValue back(const c10::IValue& value) const {
    if (value.isTensor() && widens_) return on_device(value.toTensor().to(at::kBFloat16), device());
    if (value.isTensor()) return on_device(value.toTensor(), device());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector())
      list.push_back(on_device(tensor, device()));
    return list;
  }

  /// The CPU's generator draws, from the state of the device's one.
  void run_with_generator() {
    static std::mutex mutex;
    const at::Generator& generator =
        generator_ ? *generator_ : at::cuda::detail::getDefaultCUDAGenerator(device().index());
    auto& place = *at::check_generator<at::CUDAGeneratorImpl>(generator);
    const std::lock_guard lock(mutex);
    const std::uint64_t offset = place.philox_offset_per_thread();
    at::Generator host = at::detail::getDefaultCPUGenerator();
    host.set_current_seed(place.current_seed() * 1'000'003 + offset);
    op_.callBoxed(&stack_);
    place.set_philox_offset_per_thread(offset + 4);
  }

  const c10::OperatorHandle& op_;
  const Stack arguments_;
  Stack stack_;  ///< the translated arguments, then the results
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;  ///< arguments written to, and values
  bool widens_ = false;
  bool is_written_ = false;  ///< the argument that is being translated
  std::optional<c10::Device> device_;
  std::optional<at::Generator> generator_;
};

void run_on_host(const c10::OperatorHandle& op, Stack* stack) {
  // The same bits in every thread: those of LibTorch's backward have settings of their own.
  if (at::get_num_threads() != 1) at::set_num_threads(1);
  const AtWork at_work;
  const at::AutoDispatchBelowADInplaceOrView below;
  const std::size_t count = op.schema().arguments().size();
  Call call(op, torch::jit::last(*stack, count).vec());
  torch::jit::drop(*stack, count);
  call.run();
  for (c10::IValue& value : call.results()) stack->push_back(std::move(value));
}

/// Copies of whole blocks are left to the streams, which do them as late as they may.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const c10::Device device = self.is_cuda() ? self.device() : source.device();
  const bool as_it_is = self.sizes() == source.sizes() && self.strides() == source.strides() &&
                        self.scalar_type() == source.scalar_type() &&
                        self.is_non_overlapping_and_dense();
  if (as_it_is) {
    const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device.index());
    TORCH_CHECK(cudaMemcpyAsync(self.data_ptr(), source.data_ptr(), self.nbytes(),
                                cudaMemcpyDefault, stream) == cudaSuccess);
    if (self.is_cuda() && source.is_cuda()) return self;
    if (!non_blocking) {
      stream.synchronize();
    } else {  // pinned memory that is released before the copy is done is kept until then
      const at::Tensor& host = self.is_cuda() ? source : self;
      at::getHostAllocator(at::kCUDA)->record_event(
          host.mutable_data_ptr(), host.storage().data_ptr().get_context(), stream.unwrap());
    }
    return self;
  }
  if (is_timed()) {
    count_conversion(self, source);
    if (!self.is_cuda() || !source.is_cuda()) wait_for_stream(device);
    const at::AutoDispatchBelowADInplaceOrView below;
    return self.is_cuda() ? self : self.zero_();
  }
  if (!self.is_cuda()) wait_for_stream(device);  // blocks the host
  const AtWork at_work;
  const at::AutoDispatchBelowADInplaceOrView below;
  wait_for_stream(device);
  if (self.is_cuda())
    write_late(self, on_host(source).to(self.scalar_type()).expand(self.sizes()).clone());
  else
    self.copy_(on_host(source));
  return self;
}

/// It has no CPU kernel. With the rows' r = 1 / sqrt(mean(x^2) + epsilon) and h = dy w:
/// dx = r h - r^3 x mean(h x), dw = the sum of dy x r over rows.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                     at::IntArrayRef sizes, const at::Tensor& r,
                                                     const std::optional<at::Tensor>& weight,
                                                     std::array<bool, 2> /*wanted*/) {
  const c10::Device device = x.device();
  wait_for_stream(device);
  const AtWork at_work;
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto wide = [](const at::Tensor& tensor) { return on_host(tensor).to(at::kDouble); };
  TORCH_CHECK(sizes.size() == 1 && weight, "an emulated GPU has RMS norms of rows with a weight");
  const at::Tensor dy64 = wide(dy), unit = wide(x) * wide(r), h = dy64 * wide(*weight);
  const at::Tensor dx = (h - unit * (h * unit).mean(-1, true)) * wide(r);
  const at::Tensor dw = (dy64 * unit).flatten(0, -2).sum(0);
  return {on_device(dx.to(x.scalar_type()), device),
          on_device(dw.to(weight->scalar_type()), device)};
}

/// Replaces every CUDA kernel of LibTorch for whose operator the CPU has one.
class Operators {
 public:
  Operators()
      : library_(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__),
        own_(torch::Library::IMPL, "trireme", c10::DispatchKey::CUDA, __FILE__, __LINE__) {
    const c10::WarningUtils::WarningHandlerGuard quiet(&quiet_);  // "overriding a kernel"
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name :
         dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CUDA)) {
      const std::string short_name =
          name.name.starts_with("aten::") ? name.name.substr(6) : std::string();
      const auto op = dispatcher.findSchema(name);
      if (short_name.empty() || !op || native_operators().contains(short_name)) continue;
      if (short_name == "copy_" || (is_timed() && short_name == "_fused_sdp_choice")) continue;
      if (is_timed()) {
        library_.impl(c10::toString(name).c_str() + 6,
                      torch::CppFunction::makeFromBoxedFunction<&run_timed>());
      } else if (op->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
        library_.impl(c10::toString(name).c_str() + 6,
                      torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
      }
    }
    library_.impl("copy_", TORCH_FN(copy_));
    for (const std::string& name :
         wants_own_operators() ? define_own_operators() : std::vector<std::string>())
      own_.impl(name.c_str(), is_timed()
                                  ? torch::CppFunction::makeFromBoxedFunction<&run_timed>()
                                  : torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
    if (!is_timed()) library_.impl("_fused_rms_norm_backward", TORCH_FN(rms_norm_backward));
    // Variants without a CPU kernel must not be chosen.
    at::Context& context = at::globalContext();
    context.setSDPUseFlash(is_timed());
    context.setSDPUseMemEfficient(false);
    context.setSDPUseCuDNN(false);
    context.setUserEnabledCuDNN(false);
  }

 private:
  class Quiet final : public c10::WarningHandler {
   public:
    void process(const c10::Warning& /*warning*/) override {}
  };
  Quiet quiet_;
  torch::Library library_, own_;
};

// Never freed: LibTorch's dispatcher may be gone before.
const auto* const operators = new Operators;

}  // namespace
}  // namespace emulated
