// SPDX-License-Identifier: Apache-2.0
#include "saved/loss_log.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"

#include <cstring>
#include <span>
#include <utility>

namespace trireme::runtime {

void LossLog::add(const std::vector<float>& losses) {
  mine_.insert(mine_.end(), losses.begin(), losses.end());
  ++steps_;
}

std::vector<double> LossLog::exchange() {
  const int steps = std::exchange(steps_, 0);
  const auto parts = comm::all_gather(channel_, comm::everyone(channel_),
                                      std::as_bytes(std::span(mine_)), "losses");
  mine_.clear();
  std::vector<double> means;
  for (int step = 0; step < steps; ++step) {
    double sum = 0;
    int count = 0;
    for (const std::vector<std::byte>& part :
         parts) {  // one per rank: replicas in their order, most parts empty
      const std::size_t bytes = part.size() / static_cast<std::size_t>(steps);
      std::vector<float> losses(bytes / sizeof(float));
      if (bytes > 0)
        std::memcpy(losses.data(), part.data() + static_cast<std::size_t>(step) * bytes, bytes);
      for (const float loss : losses) sum += loss;
      count += static_cast<int>(losses.size());
      all_.losses.insert(all_.losses.end(), losses.begin(), losses.end());
    }
    ensure(count > 0, "some rank has the losses");
    means.push_back(sum / count);
  }
  all_.means.insert(all_.means.end(), means.begin(), means.end());
  return means;
}

std::string LossLog::digest() const {
  return trireme::digest(all_.losses.data(), all_.losses.size() * sizeof(float));
}

}  // namespace trireme::runtime
