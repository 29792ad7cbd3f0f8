# compiled
