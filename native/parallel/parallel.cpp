#include "parallel/parallel.hpp"

#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace mercer {
namespace {

// The state of a loop, shared by the caller and the worker threads. A late worker may access it after the loop has
// ended, and then finds no work.
struct Loop {
    Loop(int64_t n_tasks, int helpers, Task what, void* where)
        : count(n_tasks), wanted(helpers), task(what), context(where) {
        std::fegetenv(&environment);
    }

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

    // Allows no further worker to start, and waits for those that have started.
    void finish() {
        next.store(count);
        for (int n = n_at_work.load(); n > 0; n = n_at_work.load()) n_at_work.wait(n);
    }

    const int64_t count;
    int wanted;  // number of workers that may still join; guarded by the board
    const Task task;
    void* const context;
    std::fenv_t
        environment;  // the caller's floating-point environment: workers use its rounding and treatment of subnormals
    std::atomic<int64_t> next{0};
    std::atomic<int> n_at_work{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
};

// The queue of loops: callers add loops and workers take them.
class Board {
  public:
    void put_up(const std::shared_ptr<Loop>& loop) {
        const int helpers = loop->wanted;
        {
            std::lock_guard lock(mutex_);
            loops_.push_back(loop);
            n_put_up_.fetch_add(1);
            int wanted = 0;
            for (const auto& open : loops_) wanted += open->wanted;
            try {
                for (; n_idle_ < wanted; ++n_idle_) std::thread([this] { help(); }).detach();
            } catch (const std::exception&) {
                // The system has no more threads or memory; the existing workers do the work.
            }
        }
        for (int i = 0; i < helpers; ++i) has_loops_.notify_one();
    }

    void take_down(const std::shared_ptr<Loop>& loop) {
        std::lock_guard lock(mutex_);
        std::erase(loops_, loop);
    }

  private:
    void help() noexcept {
        for (std::unique_lock lock(mutex_);;) {
            const auto loop = next_loop();
            if (loop == nullptr) {
                rest(lock);
                continue;
            }
            --loop->wanted, --n_idle_;
            lock.unlock();
            std::fesetenv(&loop->environment);
            loop->work();
            lock.lock();
            ++n_idle_;
        }
    }

    // Waits for another loop. It spins first, because the next loop of a fit usually comes before a sleeping thread
    // could wake.
    void rest(std::unique_lock<std::mutex>& lock) {
        using Clock = std::chrono::steady_clock;
        const int64_t seen = n_put_up_.load();
        lock.unlock();
        for (const auto until = Clock::now() + kSpin; n_put_up_.load() == seen && Clock::now() < until;)
            std::this_thread::yield();
        lock.lock();
        if (n_put_up_.load() == seen) has_loops_.wait(lock);
    }

    std::shared_ptr<Loop> next_loop() const {
        for (const auto& loop : loops_)
            if (loop->wanted > 0 && loop->next.load() < loop->count) return loop;
        return nullptr;
    }

    // How long a worker spins before it sleeps; it yields the processor meanwhile.
    static constexpr std::chrono::microseconds kSpin{100};

    std::mutex mutex_;
    std::condition_variable has_loops_;
    std::atomic<int64_t> n_put_up_{0};
    std::vector<std::shared_ptr<Loop>> loops_;
    int n_idle_ = 0;  // workers without a loop
};

// Never destroyed, because workers wait on it until the process ends. A forked process has no workers and creates
// another board.
std::atomic<Board*> the_board{nullptr};

#if defined(__unix__) || defined(__APPLE__)
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { the_board.store(nullptr); });
#endif

Board& board() {
    Board* shared_board = the_board.load();
    if (shared_board != nullptr) return *shared_board;
    auto fresh = std::make_unique<Board>();
    return *(the_board.compare_exchange_strong(shared_board, fresh.get()) ? fresh.release() : shared_board);
}

}  // namespace

void parallel_for(int64_t count, int n_threads, Task task, void* context) {
    if (n_threads > count) n_threads = static_cast<int>(count);
    if (n_threads <= 1) {
        for (int64_t i = 0; i < count; ++i) task(context, i);
        return;
    }
    const auto loop = std::make_shared<Loop>(count, n_threads - 1, task, context);
    Board& place = board();
    place.put_up(loop);
    loop->work();
    place.take_down(loop);
    loop->finish();
    if (loop->failure) std::rethrow_exception(loop->failure);
}

}  // namespace mercer

namespace {
// The limit that threadpoolctl sets. It holds for the whole process; 0 means no limit.
std::atomic<int> thread_limit{0};
}  // namespace

int mercer_get_num_threads() { return thread_limit.load(); }

void mercer_set_num_threads(int n_threads) { thread_limit.store(n_threads > 0 ? n_threads : 0); }
