#include "mercer/parallel.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "mercer/scratch.hpp"

namespace mercer {

void parallel_for(int64_t count, int n_threads, Task task, void* context) {
    if (n_threads > count) n_threads = static_cast<int>(count);
    std::atomic<int64_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    auto work = [&] {
        try {
            for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(context, i);
        } catch (...) {
            std::lock_guard lock(failure_mutex);
            failure = std::current_exception();
            next.store(count);
        }
    };
    std::vector<std::thread> helpers;
    helpers.reserve(n_threads > 1 ? static_cast<std::size_t>(n_threads) - 1 : 0);
    try {
        for (int t = 1; t < n_threads; ++t) helpers.emplace_back(work);
    } catch (const std::system_error&) {
        // The system grants no more threads: the ones that exist do the work.
    }
    work();
    for (auto& helper : helpers) helper.join();
    if (failure) std::rethrow_exception(failure);
}

// Aligned by hand: glibc (2.36, for one) asks for more than it gives, so that a piece that was freed is too small for
// the next one of its size, and the process grows with every call.
void* allocate_aligned(std::size_t bytes) {
    constexpr std::size_t kAlignment = 64;
    void* whole = std::malloc(bytes + kAlignment + sizeof(void*));
    if (whole == nullptr) throw std::bad_alloc();
    const auto first = reinterpret_cast<std::uintptr_t>(whole) + sizeof(void*);
    void* memory = reinterpret_cast<void*>((first + kAlignment - 1) / kAlignment * kAlignment);
    static_cast<void**>(memory)[-1] = whole;
    return memory;
}

void release_aligned(void* memory) noexcept { std::free(static_cast<void**>(memory)[-1]); }

}  // namespace mercer

namespace {
// The one global of the core: threadpoolctl's protocol is a number for the whole process.
std::atomic<int> thread_limit{0};
}  // namespace

int mercer_get_num_threads() { return thread_limit.load(); }

void mercer_set_num_threads(int n_threads) { thread_limit.store(n_threads > 0 ? n_threads : 0); }
