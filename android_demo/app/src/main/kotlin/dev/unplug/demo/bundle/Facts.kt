package dev.unplug.demo.bundle

import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.Button
import android.widget.TextView
import dev.unplug.demo.R

/** Adds a card: a title, what is known, and what can be done about it. */
fun ViewGroup.addFacts(
    title: String,
    text: String,
    action: Pair<String, () -> Unit>? = null,
) {
    val card = LayoutInflater.from(context).inflate(R.layout.item_facts, this, false)
    card.findViewById<TextView>(R.id.title).text = title
    card.findViewById<TextView>(R.id.text).text = text
    val button = card.findViewById<Button>(R.id.action)
    if (action != null) {
        button.visibility = View.VISIBLE
        button.text = action.first
        button.setOnClickListener { action.second() }
    }
    addView(card)
}
