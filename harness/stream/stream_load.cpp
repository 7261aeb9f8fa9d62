#include "harness/stream/stream_load.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "harness/results/statistics.h"

namespace rtfx {

std::optional<double> md1_total(double service, double rate) {
  const double load = rate * service;
  if (load >= 1) return std::nullopt;
  return service + load * service / (2 * (1 - load));
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns a number in [0, 1). The distributions of standard libraries differ.
double uniform(std::mt19937_64& random) {
  return std::ldexp(static_cast<double>(random() >> 11), -53);
}

/// Returns the slope of the least-squares line.
double slope(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xy = 0, xx = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
  }
  return xx > 0 ? xy / xx : 0;
}

}  // namespace

std::vector<Request> make_load(int64_t streams, const Arrivals& arrivals, double seconds,
                               uint64_t seed) {
  std::mt19937_64 random(seed);
  const double period = arrivals.period;
  const auto gap = [&] { return -std::log1p(-uniform(random)) * period; };
  const double spread = arrivals.kind == "lockstep"    ? 0
                        : arrivals.kind == "staggered" ? arrivals.stagger
                                                       : period;
  std::vector<Request> load;
  for (int64_t stream = 0; stream < streams; ++stream) {
    if (arrivals.kind == "poisson") {
      for (double time = gap(); time < seconds; time += gap()) load.push_back({time, stream});
    } else {
      const double phase = uniform(random) * spread;
      for (int64_t i = 0; phase + static_cast<double>(i) * period < seconds; ++i)
        load.push_back({phase + static_cast<double>(i) * period, stream});
    }
  }
  std::sort(load.begin(), load.end(), [](const Request& a, const Request& b) {
    return std::pair(a.arrival, a.stream) < std::pair(b.arrival, b.stream);
  });
  return load;
}

void DynamicBatcher::add(const Request& request) {
  std::deque<double>& own = waiting_[request.stream];
  own.push_back(request.arrival);
  if (own.size() == 1) heads_.emplace(request.arrival, request.stream);
}

double DynamicBatcher::ready_at() const {
  if (heads_.empty()) return kInfinity;
  if (heads_.size() >= max_batch_) return -kInfinity;
  return heads_.begin()->first + max_wait_;
}

std::vector<Request> DynamicBatcher::take() {
  std::vector<Request> batch;
  while (batch.size() < max_batch_ && !heads_.empty()) {
    const auto [arrival, stream] = *heads_.begin();
    heads_.erase(heads_.begin());
    batch.push_back({arrival, stream});
  }
  for (const Request& request : batch) {
    std::deque<double>& own = waiting_[request.stream];
    own.pop_front();
    if (!own.empty()) heads_.emplace(own.front(), request.stream);
  }
  return batch;
}

std::vector<ServedBatch> serve(const std::vector<Request>& load, DynamicBatcher batcher,
                               LoadClock& clock,
                               const std::function<Work(const std::vector<Request>&)>& work,
                               const std::function<bool(const ServedBatch&)>& ends) {
  std::vector<ServedBatch> served;
  size_t next = 0, pending = 0;
  while (next < load.size() || !batcher.empty() || pending > 0) {
    const double now = clock.now();
    while (next < load.size() && load[next].arrival <= now) batcher.add(load[next++]);
    const double ready = pending > 0 ? now : batcher.ready_at();
    if (ready > now) {
      clock.wait_until(next < load.size() ? std::min(ready, load[next].arrival) : ready);
      continue;
    }
    const double begin = clock.now();
    Work done = work(batcher.take());
    pending = done.pending;
    served.push_back({begin, clock.now(), std::move(done.served)});
    if (ends && ends(served.back())) break;
  }
  return served;
}

LateRequests::LateRequests(const std::vector<Request>& load, double from, double share,
                           double period)
    : from_(from),
      period_(period),
      allowed_(share * static_cast<double>(std::ranges::count_if(
                           load, [&](const Request& one) { return one.arrival >= from; }))) {}

bool LateRequests::too_many(const ServedBatch& batch) {
  for (const Served& one : batch.served) {
    const double arrival = one.request.arrival;
    if (arrival >= from_ && batch.begin - arrival > period_) ++late_;
  }
  return static_cast<double>(late_) > allowed_;
}

int64_t most_within(int64_t first, double growth, const std::function<bool(int64_t)>& within,
                    const std::function<bool(int64_t)>& confirm) {
  int64_t most = 0, broken = 0;  // `broken` is the smallest number that failed; 0: none so far
  double fall = growth;
  while (broken == 0 || broken - most > std::max<int64_t>(1, most / 20)) {
    int64_t next = most + (broken - most) / 2;
    if (broken == 0 && most == 0) {
      next = first;
    } else if (broken == 0) {
      next =
          std::max(most + 1, static_cast<int64_t>(std::ceil(growth * static_cast<double>(most))));
    } else if (most == 0) {
      next = std::max(int64_t{1}, static_cast<int64_t>(static_cast<double>(broken) / fall));
      fall *= fall;
    }
    (within(next) ? most : broken) = next;
  }
  while (most > 0 && confirm && !confirm(most))
    most = static_cast<int64_t>(0.9 * static_cast<double>(most));
  return most;
}

Percentiles percentiles(const std::vector<double>& values) {
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  const double most = *std::ranges::max_element(values);
  return {mean, *percentile(values, 0.5), percentile(values, 0.95).value_or(most),
          percentile(values, 0.99).value_or(most), most};
}

LoadFigures load_figures(const std::vector<ServedBatch>& batches, double from, double to,
                         double period) {
  LoadFigures figures;
  std::vector<double> arrivals, compute, queue, total, ended;
  double last = from, work = 0;
  for (const ServedBatch& batch : batches) {
    const size_t before = arrivals.size();
    for (const auto& [request, ends] : batch.served) {
      if (request.arrival < from || request.arrival >= to) continue;
      arrivals.push_back(request.arrival);
      compute.push_back(batch.end - batch.begin);
      queue.push_back(batch.begin - request.arrival);
      total.push_back(batch.end - request.arrival);
      if (total.back() > period) ++figures.late;
      if (queue.back() > period) ++figures.late_starts;
      if (ends) ended.push_back(total.back());
    }
    const bool within = batch.served.empty() && batch.begin >= from && batch.begin < to;
    if (arrivals.size() == before && !within) continue;
    ++figures.batches;
    work += batch.end - batch.begin;
    last = std::max(last, batch.end);
  }
  figures.requests = static_cast<int64_t>(arrivals.size());
  if (figures.requests == 0) return figures;
  figures.compute = percentiles(compute);
  figures.queue = percentiles(queue);
  figures.total = percentiles(total);
  figures.utterances = static_cast<int64_t>(ended.size());
  if (!ended.empty()) figures.last = percentiles(ended);
  const auto count = static_cast<double>(figures.batches);
  figures.mean_batch = static_cast<double>(figures.requests) / count;
  figures.batch_seconds = work / count;
  figures.served_seconds = last - from;
  figures.busy = work / figures.served_seconds;
  figures.batch_rate = count / figures.served_seconds;
  figures.queue_slope = slope(arrivals, queue);
  return figures;
}

}  // namespace rtfx
