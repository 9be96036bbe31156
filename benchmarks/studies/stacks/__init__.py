"""Many models of one recipe and one data set, trained at once: what comparing methods takes, and no
request.
"""
