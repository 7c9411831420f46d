#include "mercer/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "mercer/pause.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace mercer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kAwake{500};  // after a loop: the next one of a fit comes within
constexpr int kPauses = 64;                       // between looks at the clock

// What caller and helpers share of a loop. A helper that comes late may outlive it: it then finds nothing to do.
struct Loop {
    Loop(int64_t n_tasks, int helpers, Task what, void* where)
        : count(n_tasks), wanted(helpers), task(what), context(where) {}

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
    int wanted;  // helpers that it has room for yet; the board's
    const Task task;
    void* const context;
    std::atomic<int64_t> next{0};
    std::atomic<int> n_at_work{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
};

// Where callers put up their loops and helpers look for one.
class Board {
  public:
    void put_up(const std::shared_ptr<Loop>& loop) {
        const int helpers = loop->wanted;
        {
            std::lock_guard lock(mutex_);
            loops_.push_back(loop);
            try {
                for (; n_helpers_ < helpers; ++n_helpers_) std::thread([this] { help(); }).detach();
            } catch (const std::exception&) {
                // The system grants no more threads, or no memory for them: the ones that exist do the work.
            }
            version_.fetch_add(1);
        }
        for (int i = 0; i < helpers; ++i) version_.notify_one();
    }

    void take_down(const std::shared_ptr<Loop>& loop) {
        std::lock_guard lock(mutex_);
        loops_.erase(std::find(loops_.begin(), loops_.end(), loop));
    }

  private:
    void help() noexcept {
        for (auto sleeps_at = Clock::now() + kAwake;;) {
            const uint32_t seen = version_.load();
            if (const auto loop = join()) {
                loop->work();
                sleeps_at = Clock::now() + kAwake;
            } else if (!changes_before(sleeps_at, seen)) {
                version_.wait(seen);
            }
        }
    }

    std::shared_ptr<Loop> join() {
        std::lock_guard lock(mutex_);
        for (const auto& loop : loops_)
            if (loop->wanted > 0 && loop->next.load() < loop->count) {
                --loop->wanted;
                return loop;
            }
        return nullptr;
    }

    bool changes_before(Clock::time_point end, uint32_t seen) const {
        for (; Clock::now() < end; std::this_thread::yield())
            for (int i = 0; i < kPauses; ++i) {
                if (version_.load() != seen) return true;
                pause();
            }
        return false;
    }

    std::mutex mutex_;
    std::vector<std::shared_ptr<Loop>> loops_;
    int n_helpers_ = 0;
    std::atomic<uint32_t> version_{0};
};

// Never destroyed: helpers wait at it until the process ends. A process that was forked has none of them, and puts up
// another.
std::atomic<Board*> the_board{nullptr};

Board& board() {
#if defined(__unix__) || defined(__APPLE__)
    static const int registered = pthread_atfork(nullptr, nullptr, [] { the_board.store(nullptr); });
    static_cast<void>(registered);
#endif
    Board* found = the_board.load();
    if (found == nullptr) {
        auto* fresh = new Board;
        if (the_board.compare_exchange_strong(found, fresh))
            found = fresh;
        else
            delete fresh;
    }
    return *found;
}

void wait_for(Loop& loop) {
    for (int n = loop.n_at_work.load(); n > 0; n = loop.n_at_work.load()) loop.n_at_work.wait(n);
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
    wait_for(*loop);
    if (loop->failure) std::rethrow_exception(loop->failure);
}

struct Aside::State : Loop {
    using Loop::Loop;
};

Aside::Aside(Task task, void* context) : state_(std::make_shared<State>(1, 1, task, context)) {
    board().put_up(state_);
}

Aside::~Aside() {
    board().take_down(state_);
    state_->next.store(state_->count);
    wait_for(*state_);
}

}  // namespace mercer

namespace {
// The one global of the core that users see: threadpoolctl's protocol is a number for the whole process.
std::atomic<int> thread_limit{0};
}  // namespace

int mercer_get_num_threads() { return thread_limit.load(); }

void mercer_set_num_threads(int n_threads) { thread_limit.store(n_threads > 0 ? n_threads : 0); }
