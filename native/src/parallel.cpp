#include "mercer/parallel.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace mercer {
namespace {

// What caller and helpers share of a loop. A helper that comes late may outlive it: it then finds nothing to do.
struct Loop {
    Loop(int64_t n_tasks, Task what, void* where) : count(n_tasks), task(what), context(where) {}

    void work() noexcept {
        n_at_work.fetch_add(1);
        try {
            for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(context, i);
        } catch (...) {
            std::lock_guard lock(failure_mutex);
            failure = std::current_exception();
            next.store(count);
        }
        n_at_work.fetch_sub(1);
        n_at_work.notify_all();
    }

    const int64_t count;
    const Task task;
    void* const context;
    std::atomic<int64_t> next{0};
    std::atomic<int> n_at_work{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
};

}  // namespace

void parallel_for(int64_t count, int n_threads, Task task, void* context) {
    if (n_threads > count) n_threads = static_cast<int>(count);
    if (n_threads <= 1) {
        for (int64_t i = 0; i < count; ++i) task(context, i);
        return;
    }
    const auto loop = std::make_shared<Loop>(count, task, context);
    try {
        for (int t = 1; t < n_threads; ++t) std::thread([loop] { loop->work(); }).detach();
    } catch (const std::exception&) {
        // The system grants no more threads, or no memory for them: the ones that exist do the work.
    }
    loop->work();
    for (int n = loop->n_at_work.load(); n > 0; n = loop->n_at_work.load()) loop->n_at_work.wait(n);
    if (loop->failure) std::rethrow_exception(loop->failure);
}

}  // namespace mercer

namespace {
// The one global of the core: threadpoolctl's protocol is a number for the whole process.
std::atomic<int> thread_limit{0};
}  // namespace

int mercer_get_num_threads() { return thread_limit.load(); }

void mercer_set_num_threads(int n_threads) { thread_limit.store(n_threads > 0 ? n_threads : 0); }
