package dev.unplug.demo

import android.os.Handler
import android.os.Looper
import java.util.concurrent.Executors
import java.util.concurrent.atomic.AtomicInteger

/** A task under way that can be told to stop; it asks [stopped] when it can. */
class Running {
    @Volatile
    var stopped = false
        private set

    fun stop() {
        stopped = true
    }
}

/** Everything that takes longer than a frame: done on threads of its own, told on the main one. */
class Work {
    private val threads = Executors.newCachedThreadPool { Thread(it, "unplug-work").apply { isDaemon = true } }
    private val main = Handler(Looper.getMainLooper())
    private val waiting = AtomicInteger()

    /** Tasks whose end the main thread has not heard of yet. */
    val pending: Int get() = waiting.get()

    /**
     * Runs a task.
     *
     * @param task off the main thread.
     * @param then gets the result or the error, on the main thread.
     */
    fun <T> run(
        task: (Running) -> T,
        then: (Result<T>) -> Unit,
    ): Running {
        val running = Running()
        waiting.incrementAndGet()
        threads.execute {
            val result = runCatching { task(running) }
            main.post {
                waiting.decrementAndGet()
                then(result)
            }
        }
        return running
    }

    /** Says something on the main thread while a task goes on. */
    fun tell(what: () -> Unit) {
        main.post(what)
    }
}
