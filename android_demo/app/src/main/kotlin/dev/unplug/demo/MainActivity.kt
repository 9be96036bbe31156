package dev.unplug.demo

import android.app.Activity
import android.content.Intent
import android.os.Bundle
import android.view.View
import android.view.ViewGroup
import android.widget.ImageView
import android.widget.TextView
import dev.unplug.demo.age.AgeActivity
import dev.unplug.demo.bench.BenchActivity
import dev.unplug.demo.bundle.BundleActivity
import dev.unplug.demo.bundle.Kept
import dev.unplug.demo.draw.DrawActivity
import dev.unplug.demo.forget.ForgetActivity

/** The way to everything else, and what is on the phone. */
class MainActivity : Activity() {
    private val app get() = application as DemoApp

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        setContentView(R.layout.activity_main)
        actionBar?.elevation = 0f
        findViewById<View>(R.id.state).setOnClickListener { startActivity(Intent(this, BundleActivity::class.java)) }
        val places = findViewById<ViewGroup>(R.id.places)
        place(places, R.drawable.icon_age, R.string.age_title, R.string.age_text, AgeActivity::class.java)
        place(places, R.drawable.icon_draw, R.string.draw_title, R.string.draw_text, DrawActivity::class.java)
        place(places, R.drawable.icon_forget, R.string.forget_title, R.string.forget_text, ForgetActivity::class.java)
        place(places, R.drawable.icon_bench, R.string.bench_title, R.string.bench_text, BenchActivity::class.java)
        place(places, R.drawable.icon_bundle, R.string.bundle_title, R.string.bundle_text, BundleActivity::class.java)
    }

    override fun onStart() {
        super.onStart()
        say(getString(R.string.main_checking), "")
        app.work.run({ app.shelf.look() }) { result -> result.fold(::show) { say(getString(R.string.bundle_title), line(it)) } }
    }

    private fun show(kept: List<Kept>) {
        val good = kept.firstNotNullOfOrNull { it.bundle }
        val bad = kept.firstNotNullOfOrNull { it.error }
        when {
            good != null -> {
                val said = good.manifest.publication
                val forgot = good.manifest.lineage.forgetSamples.toInt()
                val count = resources.getQuantityString(R.plurals.samples, forgot, forgot)
                say(getString(R.string.main_release, said.release, said.name), getString(R.string.main_signed, count))
            }
            bad != null -> say(getString(R.string.bundle_title), line(bad))
            else -> say(getString(R.string.main_none_title), getString(R.string.main_none_text))
        }
    }

    private fun say(
        title: String,
        text: String,
    ) {
        findViewById<TextView>(R.id.state_title).text = title
        findViewById<TextView>(R.id.state_text).text = text
    }

    private fun place(
        places: ViewGroup,
        icon: Int,
        title: Int,
        text: Int,
        screen: Class<out Activity>,
    ) {
        val view = layoutInflater.inflate(R.layout.item_place, places, false)
        view.findViewById<ImageView>(R.id.icon).setImageResource(icon)
        view.findViewById<TextView>(R.id.title).setText(title)
        view.findViewById<TextView>(R.id.text).setText(text)
        view.setOnClickListener { startActivity(Intent(this, screen)) }
        places.addView(view)
    }
}
