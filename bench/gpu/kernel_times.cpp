// Every kernel of a process and when it ran, by CUPTI, for bench/gpu/kernels: CUDA loads this
// library where CUDA_INJECTION64_PATH names it. When the process ends, KERNEL_TIMES_FILE has "N
// NUMBER NAME" for every name and "BEGIN NANOSECONDS STREAM NUMBER" for every kernel, copy and
// fill.
// SPDX-License-Identifier: Apache-2.0
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr std::size_t kBuffer = std::size_t{4} << 20;

struct Run {
  std::uint64_t begin, end;
  std::uint32_t stream;
  std::size_t name;
};

/// Never freed: CUPTI gives its last buffers back when everything else has ended.
struct Runs {
  std::mutex mutex;
  std::vector<Run> all;
  std::unordered_map<std::string, std::size_t> names;

  static Runs& get() {
    static auto* const runs = new Runs;
    return *runs;
  }
  template <class Activity>
  void add(const Activity& activity, const std::string& name) {
    const std::size_t number = names.try_emplace(name, names.size()).first->second;
    all.push_back({activity.start, activity.end, activity.streamId, number});
  }
};

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBuffer));
  *size = kBuffer;
  *most_records = 0;
}

void take_buffer(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer,
                 std::size_t /*size*/, std::size_t filled) {
  Runs& runs = Runs::get();
  const std::lock_guard lock(runs.mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      runs.add(kernel, kernel.name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      runs.add(*reinterpret_cast<const CUpti_ActivityMemcpy6*>(record), "copy");
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      runs.add(*reinterpret_cast<const CUpti_ActivityMemset4*>(record), "fill");
    }
  }
  std::free(buffer);
}

void write() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const Runs& runs = Runs::get();
  const char* const path = std::getenv("KERNEL_TIMES_FILE");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr || runs.all.empty()) return;
  for (const auto& [name, number] : runs.names)
    std::fprintf(file, "N %zu %s\n", number, name.c_str());
  for (const Run& run : runs.all)
    std::fprintf(file, "%llu %llu %u %zu\n", static_cast<unsigned long long>(run.begin),
                 static_cast<unsigned long long>(run.end - run.begin), run.stream, run.name);
  std::fclose(file);
}

}  // namespace

extern "C" int InitializeInjection();

extern "C" int InitializeInjection() {
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    cuptiActivityEnable(kind);
  std::atexit(write);
  return 1;
}
